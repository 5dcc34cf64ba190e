//! What is done to single chunks, under the lock of their shard.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_paging::pager::{Access, Answer, ChunkKey, Placement, SeatId, State};
use outboard_userfaultfd::{Cause, Fault};
use outboard_wire::Time;
use rustix::io::Errno;

use super::fingerprint::PAGE;
use super::jobs::{Errand, Job, PageSet};
use super::pages::{Cell, Chore};
use super::region::{PagedRegion, Way};
use super::space::Held;
use super::stats::add;
use super::{OnLoss, Pages};

/// What a fault leads to.
pub(super) enum Outcome {
    /// Nothing that this thread has to do.
    Settled,
    /// Bytes are to be fetched.
    Fetch(Job),
}

impl Pages {
    /// A thread waits at an address.
    pub(super) fn fault(&self, fault: Fault) -> Outcome {
        let page_bytes = rustix::param::page_size();
        let page = fault.address & !(page_bytes - 1);
        let Some((region, index)) = self.find(fault.address) else {
            self.fault_elsewhere(page);
            return Outcome::Settled;
        };
        if !region.spec.writable && fault.cause != Cause::Read {
            self.forbid(&region, index, page);
            return Outcome::Settled;
        }
        if fault.cause == Cause::Protected {
            self.space.wake(page, page_bytes);
            return Outcome::Settled;
        }
        if region.is_closing() {
            return Outcome::Settled;
        }
        let access = if fault.cause == Cause::Write { Access::Write } else { Access::Read };
        self.fault_on_chunk(&region, index, access, Some(page))
    }

    /// A thread stores to a page of a read-only region, here or not: that ends as in any read-only memory.
    fn forbid(&self, region: &PagedRegion, index: u32, page: usize) {
        let shard = self.shard_of(ChunkKey { region: region.number, index });
        // Pages are moved to and from writable memory alone, so the chunk must not move meanwhile.
        let _cell = self.shelves[shard].lock();
        if !region.is_closing() {
            region.has_forbidden.store(true, Ordering::Release);
            self.space.forbid(page, rustix::param::page_size());
        }
    }

    /// The same, for a chunk, and for the page at which the thread waits if that is known.
    pub(super) fn fault_on_chunk(
        &self,
        region: &Arc<PagedRegion>,
        index: u32,
        access: Access,
        page: Option<usize>,
    ) -> Outcome {
        let key = ChunkKey { region: region.number, index };
        let shard = self.shard_of(key);
        let mut cell = self.shelves[shard].lock();
        let (place, class) = (region.place(index), region.spec.class);
        // The kernel may hold every chunk that is in the region, until those that are on their way have arrived.
        let mut held = 0;
        if region.is_lost() && cell.shard.state(key) == State::Absent {
            self.poison(region, index);
            return Outcome::Settled;
        }
        loop {
            match cell.shard.fault(key, class, access) {
                Answer::Here => {
                    // It has come since, or should be there and is not.
                    if page.is_some_and(|page| self.is_gone(&mut cell, (region, index), page)) {
                        continue;
                    }
                    self.space.wake(place, region.chunk_bytes());
                }
                Answer::Joined => {}
                Answer::Parked => {
                    if self.sacrifice(&mut cell) {
                        cell.shard.give_up_parked(|parked| parked == key);
                        continue;
                    }
                }
                Answer::Rescue(seat) => self.rescue(&mut cell, shard, region, index, seat),
                Answer::Fetch(seat) => {
                    self.discard_frames(&mut cell, shard);
                    return Outcome::Fetch(self.job(&cell, shard, region, seat, Errand::Demand));
                }
                Answer::MakeRoom => {
                    let oldest = cell.shard.oldest();
                    held += usize::from(!oldest.is_some_and(|seat| self.move_out(&mut cell, shard, seat)));
                    if held <= cell.shard.residents() || self.sacrifice(&mut cell) {
                        continue;
                    }
                    cell.shard.park(key, class, access);
                }
            }
            return Outcome::Settled;
        }
    }

    /// A chunk that will be wanted, unless there is no seat for it or it is known.
    pub(super) fn ahead(&self, region: &Arc<PagedRegion>, index: u32, stay: bool) -> Option<Job> {
        let key = ChunkKey { region: region.number, index };
        let shard = self.shard_of(key);
        let mut cell = self.shelves[shard].lock();
        let seat = cell.shard.fetch_ahead(key, region.spec.class)?;
        self.discard_frames(&mut cell, shard);
        Some(self.job(&cell, shard, region, seat, Errand::Ahead { stay }))
    }

    pub(super) fn job(
        &self,
        cell: &Cell,
        shard: usize,
        region: &Arc<PagedRegion>,
        seat: SeatId,
        errand: Errand,
    ) -> Job {
        let frame = cell.shard.frame(seat);
        let pool = self.shelves[shard].pool(frame.class);
        Job {
            errand,
            region: Arc::clone(region),
            index: cell.shard.key(seat).index,
            shard,
            seat,
            buffer: pool.buffer().clone(),
            at: pool.offset(frame.slot),
            sent_at: Time::ZERO,
            way: Way::Direct,
            shuns_agent: false,
            piece_bytes: 0,
            next: 0,
            sent: 0,
            under_way: 0,
            has_failed: false,
            is_uncertain: false,
        }
    }

    /// The bytes of a chunk have arrived in its seat.
    pub(super) fn fetched(&self, job: &Job) {
        let Job { region, index, shard, seat, .. } = job;
        let (_, len) = region.span(*index);
        let counter = match job.errand {
            Errand::Demand => &self.tally.demand_bytes,
            _ => &self.tally.ahead_bytes,
        };
        add(counter, len as u64);
        add(&self.tally.fetches, u64::from(job.errand == Errand::Demand));
        let mut cell = self.shelves[*shard].lock();
        if region.is_closing() {
            cell.shard.failed(*seat);
            drop(cell);
            return self.announce();
        }
        if len < region.chunk_bytes() {
            // A frame is moved with all its pages, also with those behind the end of the region.
            let frame = cell.shard.frame(*seat);
            let start = self.shelves[*shard].pool(frame.class).address(frame.slot);
            self.space.clear(start + len, region.chunk_bytes() - len);
        }
        if region.spec.writable {
            if cell.shard.is_for_writing(*seat) && self.saves_are_cheap.load(Ordering::Relaxed) {
                cell.shard.set_changed(*seat);
            } else {
                self.take_fingerprints(&mut cell, *shard, *seat, &PageSet::first(len.div_ceil(PAGE)));
            }
        }
        let stay = matches!(job.errand, Errand::Ahead { stay: true });
        if cell.shard.filled(*seat, stay) == Placement::MoveIn {
            self.move_in(&mut cell, *shard, region, *index, *seat);
            cell.shard.arrived(*seat);
        }
        drop(cell);
        self.tell_waiting();
    }

    /// The bytes of a chunk cannot be had.
    pub(super) fn fetch_failed(&self, job: &Job) {
        let mut cell = self.shelves[job.shard].lock();
        cell.shard.failed(job.seat);
        // Those who wait come again; if the server is lost they are told so.
        let place = job.region.place(job.index);
        if job.region.is_lost() && self.config.on_loss == OnLoss::Signal {
            self.poison(&job.region, job.index);
        } else {
            self.space.wake(place, job.region.chunk_bytes());
        }
        drop(cell);
        self.announce();
    }

    pub(super) fn rescue(
        &self,
        cell: &mut Cell,
        shard: usize,
        region: &Arc<PagedRegion>,
        index: u32,
        seat: SeatId,
    ) {
        if region.spec.writable && !cell.shard.has_baseline(seat) && !cell.shard.is_changed(seat) {
            if cell.shard.is_for_writing(seat) {
                cell.shard.set_changed(seat);
            } else {
                let (_, len) = region.span(index);
                self.take_fingerprints(cell, shard, seat, &PageSet::first(len.div_ceil(PAGE)));
            }
        }
        self.move_in(cell, shard, region, index, seat);
        cell.shard.rescued(seat);
    }

    fn move_in(&self, cell: &mut Cell, shard: usize, region: &PagedRegion, index: u32, seat: SeatId) {
        let frame = cell.shard.frame(seat);
        let from = self.shelves[shard].pool(frame.class).address(frame.slot);
        let (place, len) = (region.place(index), region.chunk_bytes());
        if region.has_forbidden.load(Ordering::Acquire) {
            self.space.permit(place, len);
        }
        let moved = match region.spec.writable {
            true => self.space.move_in(from, place, len),
            false => self.space.move_in_protected(from, place, len),
        };
        if let Err(errno) = moved {
            self.give_up((region, index), ("into", from), errno);
        }
    }

    /// Moves a chunk out of its region, and finds out whether it was changed. Returns false if it is held.
    pub(super) fn move_out(&self, cell: &mut Cell, shard: usize, seat: SeatId) -> bool {
        let (key, frame) = (cell.shard.key(seat), cell.shard.frame(seat));
        let Some(region) = self.region(key.region) else {
            cell.shard.stuck(seat);
            return false;
        };
        let to = self.shelves[shard].pool(frame.class).address(frame.slot);
        let (place, len) = (region.place(key.index), region.chunk_bytes());
        if region.has_forbidden.load(Ordering::Acquire) {
            self.space.permit(place, len);
        }
        match self.space.move_out(place, to, len) {
            Ok(()) => {
                let is_changed = region.spec.writable && self.has_changed(cell, shard, seat, &region);
                cell.shard.left(seat, is_changed);
                true
            }
            Err(Held::Busy) => {
                if !region.spec.writable {
                    // What was out already has come back without its protection.
                    self.space.protect(place, len);
                }
                add(&self.tally.stuck, 1);
                cell.shard.stuck(seat);
                false
            }
            Err(Held::Failed(Errno::NOENT)) if !region.spec.writable => {
                self.vanish(cell, &region, key.index);
                true
            }
            Err(Held::Failed(errno)) => self.give_up((&region, key.index), ("out of", to), errno),
        }
    }

    /// Moves out the chunk that is next, if the shard wants room. Returns whether anything was done.
    pub(super) fn make_room(&self, shard: usize) -> bool {
        if !self.shelves[shard].has(Chore::MakeRoom) {
            return false;
        }
        let mut cell = self.shelves[shard].lock();
        if !cell.shard.wants_room() {
            return false;
        }
        let Some(oldest) = cell.shard.oldest() else { return false };
        self.move_out(&mut cell, shard, oldest)
    }

    /// Moves out a chunk of the application's choice, which will hardly be needed again if `is_cold`.
    pub(super) fn dismiss(&self, key: ChunkKey, is_cold: bool) {
        let shard = self.shard_of(key);
        let mut cell = self.shelves[shard].lock();
        if let Some(seat) = cell.shard.resident(key) {
            self.move_out(&mut cell, shard, seat);
        }
        if is_cold {
            cell.shard.demote(key);
        }
    }

    /// Moves out a chunk that a flush waits for. If it has not changed and is pinned, it is back at once.
    pub(super) fn send_home(&self, shard: usize, region: &Arc<PagedRegion>, key: ChunkKey) {
        let mut cell = self.shelves[shard].lock();
        if let Some(seat) = cell.shard.owed_seat(key)
            && self.move_out(&mut cell, shard, seat)
            && cell.shard.state(key) == State::Aside
            && cell.shard.is_pinned(seat)
        {
            self.rescue(&mut cell, shard, region, key.index, seat);
        }
    }

    /// The next changed chunk of a shard for the server, among the regions that `goes_there` names.
    pub(super) fn next_save(&self, shard: usize, goes_there: impl Fn(&PagedRegion) -> bool) -> Option<Job> {
        if !self.shelves[shard].has(Chore::Save) {
            return None;
        }
        let mut cell = self.shelves[shard].lock();
        let regions = self.regions();
        let region_of = |key: ChunkKey| regions.iter().find(|region| region.number == key.region);
        let can_save = |key| {
            region_of(key).is_some_and(|region| {
                let is_held =
                    region.is_lost() || region.is_closing() || region.fencing.load(Ordering::Acquire) > 0;
                !is_held && goes_there(region)
            })
        };
        let seat = cell.shard.save_next(can_save)?;
        let region = Arc::clone(region_of(cell.shard.key(seat))?);
        drop(regions);
        let changed = self.changed_pages(&mut cell, shard, seat, &region);
        if cell.shard.has_baseline(seat) {
            self.take_fingerprints(&mut cell, shard, seat, &changed);
        }
        Some(self.job(&cell, shard, &region, seat, Errand::Save(changed)))
    }

    /// All bytes of a chunk on its way to the server have been read from its seat.
    pub(super) fn save_sent(&self, job: &Job) {
        let mut cell = self.shelves[job.shard].lock();
        if cell.shard.sent(job.seat) {
            self.rescue(&mut cell, job.shard, &job.region, job.index, job.seat);
        }
        drop(cell);
        self.tell_waiting();
    }

    /// The server has a chunk, or may not have it.
    pub(super) fn save_ended(&self, job: &Job, has_it: bool) {
        let mut cell = self.shelves[job.shard].lock();
        if has_it {
            cell.shard.saved(job.seat);
        } else if cell.shard.save_failed(job.seat) {
            self.rescue(&mut cell, job.shard, &job.region, job.index, job.seat);
        }
        if job.region.is_closing() {
            // Whoever closed it may have stopped waiting; nobody else would give the seat back.
            cell.shard.forget(job.region.number);
        }
        drop(cell);
        self.announce();
    }

    fn has_changed(&self, cell: &mut Cell, shard: usize, seat: SeatId, region: &PagedRegion) -> bool {
        !self.changed_pages(cell, shard, seat, region).is_empty()
    }

    /// Which pages of a chunk in its seat differ from what the server has.
    fn changed_pages(&self, cell: &mut Cell, shard: usize, seat: SeatId, region: &PagedRegion) -> PageSet {
        let frame = cell.shard.frame(seat);
        let (_, len) = region.span(cell.shard.key(seat).index);
        let pages = len.div_ceil(PAGE);
        if !cell.shard.has_baseline(seat) {
            return PageSet::first(pages);
        }
        let start = self.shelves[shard].pool(frame.class).address(frame.slot);
        let Some(notes) = &mut cell.notes[usize::from(frame.class.0)] else { return PageSet::first(pages) };
        let mut changed = PageSet::EMPTY;
        for (page, known) in notes.of(frame.slot).iter().enumerate().take(pages) {
            if self.fingerprint(start + page * PAGE) != *known {
                changed.insert(page);
            }
        }
        changed
    }

    fn take_fingerprints(&self, cell: &mut Cell, shard: usize, seat: SeatId, pages: &PageSet) {
        let frame = cell.shard.frame(seat);
        let start = self.shelves[shard].pool(frame.class).address(frame.slot);
        let Some(notes) = &mut cell.notes[usize::from(frame.class.0)] else { return };
        for (page, known) in notes.of(frame.slot).iter_mut().enumerate() {
            if pages.contains(page) {
                *known = self.fingerprint(start + page * PAGE);
            }
        }
        cell.shard.set_baseline(seat);
    }

    fn fingerprint(&self, page: usize) -> super::fingerprint::Fingerprint {
        // SAFETY: a page of a frame whose seat is ours while we hold its shard's lock; no link fills it, for its chunk
        // is neither being fetched nor in the region.
        unsafe { self.key.of(page as *const u8) }
    }

    pub(super) fn discard_frames(&self, cell: &mut Cell, shard: usize) {
        while let Some(frame) = cell.shard.discarded() {
            let address = self.shelves[shard].pool(frame.class).address(frame.slot);
            self.space.discard(address, frame.class.bytes());
        }
    }
}
