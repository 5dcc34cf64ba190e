//! Chunks that go: out of the region into their seats, and from there to a server or an agent if they have changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_wire::mutant;

use super::chunks::{ChunkKey, SeatId, State};
use super::fingerprint::PAGE;
use super::jobs::{Errand, Job, PageSet};
use super::pages::{Cell, Chore, Pages};
use super::region::PagedRegion;
use super::space::{Held, PageSpace};
use super::stats::add;

/// How many changed chunks are moved out for one that a thread waits for, before that waits until they are saved.
const CHANGED_MAX: u32 = 2;

/// The chunks that were moved out so far for one that a thread waits for.
#[derive(Debug, Default)]
pub(super) struct Making {
    held: usize,
    changed: u32,
}

impl<S: PageSpace> Pages<S> {
    /// Moves a chunk out of its region, and finds out whether it was changed. Returns false if it is held, or the process is about to fork.
    pub(super) fn move_out(&self, cell: &mut Cell, shard: usize, seat: SeatId) -> bool {
        let (key, frame) = (cell.shard.key(seat), self.shelves[shard].frame_of(cell, seat));
        if self.children.is_still() && !mutant("paging.left-while-it-forks") {
            return false;
        }
        let region = self.region(key.region);
        let place = region.as_ref().and_then(|region| region.place(key, cell));
        let (Some(region), Some(place)) = (&region, place) else {
            cell.shard.stuck(seat);
            return false;
        };
        match self.space.move_out(place, frame, region.spec.writable) {
            Ok(()) => {
                let is_changed = region.spec.writable
                    && !self.changed_pages(cell, shard, seat, region).is_empty()
                    && !mutant("paging.dirty-taken-for-clean");
                cell.shard.left(seat, is_changed);
                true
            }
            Err(Held::Busy) => {
                if !region.spec.writable {
                    // Pages that were out already have come back without their protection.
                    self.space.protect(place);
                }
                add(&self.tally.stuck, 1);
                cell.shard.stuck(seat);
                false
            }
            Err(Held::Torn(_)) if !region.spec.writable => {
                self.vanish(cell, region, key);
                true
            }
            Err(Held::Torn(error) | Held::Failed(error)) => {
                self.give_up(region, ("out of", frame), place, &error)
            }
        }
    }

    /// Moves out a chunk for one that a thread waits for. Returns whether there may be a seat now.
    pub(super) fn move_out_for(&self, cell: &mut Cell, shard: usize, making: &mut Making) -> bool {
        if self.children.is_still() {
            return false;
        }
        match cell.shard.oldest().filter(|seat| self.move_out(cell, shard, *seat)) {
            Some(seat) => making.changed += u32::from(cell.shard.state(cell.shard.key(seat)) == State::Dirty),
            None => making.held += 1,
        }
        // The kernel may hold every chunk that is in the region, until those that are on their way have arrived.
        let may_go_on = making.held <= cell.shard.residents() && making.changed < CHANGED_MAX;
        may_go_on || self.sacrifice(cell)
    }

    /// Moves out the chunk that is next, if this shard or another wants room. Returns whether anything was done.
    pub(super) fn make_room(&self, shard: usize) -> bool {
        if !self.shelves[shard].has(Chore::MakeRoom) && self.pool.wanted() == 0 {
            return false;
        }
        let mut cell = self.shelves[shard].lock();
        if self.children.is_still() {
            return false;
        }
        let gave = cell.shard.give_back();
        self.discard_frames(&mut cell, shard);
        if gave {
            return true;
        }
        let next = if cell.shard.wants_room() { cell.shard.next_to_leave() } else { None };
        match next {
            Some(next) => self.move_out(&mut cell, shard, next),
            // Chunks that no server will ever take cannot keep the buffer from shrinking.
            None => cell.shard.cannot_shrink() && self.sacrifice(&mut cell),
        }
    }

    /// Moves out the chunk that is next to show whether it is used.
    pub(super) fn sample(&self, shard: usize) {
        let mut cell = self.shelves[shard].lock();
        if let Some(next) = cell.shard.next_sample() {
            self.move_out(&mut cell, shard, next);
        }
    }

    /// Moves out a chunk of the application's choice that will hardly be needed again.
    pub(super) fn dismiss(&self, region: &PagedRegion, index: u32) {
        let shard = self.shard_of(region.key(index));
        let mut cell = self.shelves[shard].lock();
        let parts = self.parts(&cell, region, index, region.addresses_of(index));
        for key in parts {
            if let Some(seat) = cell.shard.resident(key) {
                self.move_out(&mut cell, shard, seat);
            }
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
            self.rescue(&mut cell, shard, (region, key), seat);
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
        let can_save = |key: ChunkKey| {
            region_of(key).is_some_and(|region| {
                let has_to_wait =
                    region.fencing.load(Ordering::Acquire) > 0 || region.is_being_discarded(key.index);
                let may_go = !region.is_lost() && !region.is_closing() && !has_to_wait;
                may_go && goes_there(region) && self.may_be_replaced(region, key.index)
            })
        };
        let seat = cell.shard.save_next(can_save)?;
        let region = Arc::clone(region_of(cell.shard.key(seat))?);
        drop(regions);
        region.blanks.remove(cell.shard.key(seat).index);
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
            self.rescue(&mut cell, job.shard, (&job.region, job.key), job.seat);
        }
        drop(cell);
        self.tell_waiting();
    }

    /// The server has a chunk, or may not have it.
    pub(super) fn save_ended(&self, job: &Job, has_it: bool) {
        let mut cell = self.shelves[job.shard].lock();
        if has_it && job.founds && job.key.page.is_none() {
            job.region.blanks.found(job.key.index);
        }
        if has_it || mutant("paging.failed-save-taken-for-saved") {
            cell.shard.saved(job.seat);
        } else if cell.shard.save_failed(job.seat) {
            self.rescue(&mut cell, job.shard, (&job.region, job.key), job.seat);
        }
        if job.region.is_closing() {
            // The thread that closed it may have stopped waiting; no other would give the seat back.
            cell.shard.forget(job.region.number);
            self.discard_frames(&mut cell, job.shard);
        }
        drop(cell);
        self.space.announce();
    }

    /// Which pages of a chunk in its seat differ from what the server has.
    fn changed_pages(&self, cell: &mut Cell, shard: usize, seat: SeatId, region: &PagedRegion) -> PageSet {
        let frame = cell.shard.frame(seat);
        let (_, len) = region.offset(cell.shard.key(seat));
        let pages = len.div_ceil(PAGE);
        if !cell.shard.has_baseline(seat) {
            return PageSet::first(pages);
        }
        let bytes = self.shelves[shard].frame(frame);
        let Some(notes) = &mut cell.notes[usize::from(frame.class.0)] else { return PageSet::first(pages) };
        let mut changed = PageSet::EMPTY;
        let compared = pages - usize::from(mutant("paging.last-page-not-compared"));
        for (page, known) in notes.of(frame.slot).iter().enumerate().take(compared) {
            if self.key.of(bytes.part(page * PAGE, PAGE)) != *known {
                changed.insert(page);
            }
        }
        changed
    }

    pub(super) fn take_fingerprints(&self, cell: &mut Cell, shard: usize, seat: SeatId, pages: &PageSet) {
        let frame = cell.shard.frame(seat);
        let bytes = self.shelves[shard].frame(frame);
        let Some(notes) = &mut cell.notes[usize::from(frame.class.0)] else { return };
        for (page, known) in notes.of(frame.slot).iter_mut().enumerate() {
            if pages.contains(page) {
                *known = self.key.of(bytes.part(page * PAGE, PAGE));
            }
        }
        cell.shard.set_baseline(seat);
    }

    pub(super) fn discard_frames(&self, cell: &mut Cell, shard: usize) {
        while let Some(frame) = cell.shard.discarded() {
            self.space.discard_frame(self.shelves[shard].frame(frame));
        }
    }
}
