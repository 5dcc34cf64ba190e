//! Chunks that come: from a server or an agent into their seats, and from there into the region.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_wire::{Time, mutant};

use super::OnLoss;
use super::chunks::{ArrivalStep, ChunkKey, SeatId};
use super::fingerprint::PAGE;
use super::grain::Grain;
use super::jobs::{Errand, Job, PageSet};
use super::pages::{Cell, Chore, Pages};
use super::readahead::Ahead;
use super::region::{FetchPath, PagedRegion, Path};
use super::route::PathOption;
use super::space::{PageSpace, Place};
use super::stats::add;

impl<S: PageSpace> Pages<S> {
    /// A thread waited for a page of a chunk. Says what to ask for: the rest of the chunk if it was divided and its pages are
    /// wanted together now, and what a stream leads to.
    pub(super) fn touched(&self, region: &PagedRegion, index: u32, page: u16) -> [Option<Ahead>; 2] {
        let ahead = region.touched(index, page);
        let has_divided = self.shelves[self.shard_of(region.key(index))].has(Chore::Gather);
        let is_wanted = has_divided && region.grain(index).0 == Grain::Chunk;
        [is_wanted.then(|| Ahead::rest_of(index)), ahead]
    }

    /// A chunk that will be wanted, or the next of its absent pages from `from` on if it is divided; none if there is no seat for
    /// it or all is known. Ask again until there is none.
    pub(super) fn ahead(
        &self,
        region: &Arc<PagedRegion>,
        index: u32,
        stay: bool,
        from: &mut u16,
    ) -> Option<Job> {
        let whole = region.key(index);
        let shard = self.shard_of(whole);
        let mut cell = self.shelves[shard].lock();
        while let Some(key) = self.absent_part(&mut cell, shard, (region, index), from) {
            let seat = cell.shard.fetch_ahead(key, region.class_of(key));
            self.discard_frames(&mut cell, shard);
            let job = self.fill(&mut cell, shard, region, seat?, Errand::Ahead { stay });
            if job.is_some() {
                return job;
            }
        }
        None
    }

    /// The seat of an absent chunk is to be filled. Returns what is to be fetched; nothing, if it is known to be zero and
    /// was filled at once.
    pub(super) fn fill(
        &self,
        cell: &mut Cell,
        shard: usize,
        region: &Arc<PagedRegion>,
        seat: SeatId,
        errand: Errand,
    ) -> Option<Job> {
        let key = cell.shard.key(seat);
        if !region.blanks.has(key.index) {
            return Some(self.job(cell, shard, region, seat, errand));
        }
        region.blanks.touch(key.index);
        let frame = cell.shard.frame(seat);
        self.shelves[shard].frame(frame).clear();
        if let Some(notes) = &mut cell.notes[usize::from(frame.class.0)] {
            notes.of(frame.slot).fill(self.fingerprint_of_zeros);
            cell.shard.set_baseline(seat);
        }
        let stay = matches!(errand, Errand::Ahead { stay: true });
        if cell.shard.blanked(seat, stay) == ArrivalStep::MoveIn {
            match region.place(key, cell) {
                Some(place) => {
                    self.move_in(cell, shard, (region, key), seat, place);
                    cell.shard.came_blank(seat);
                }
                None => _ = cell.shard.failed(seat),
            }
        }
        None
    }

    pub(super) fn job(
        &self,
        cell: &Cell,
        shard: usize,
        region: &Arc<PagedRegion>,
        seat: SeatId,
        errand: Errand,
    ) -> Job {
        let frame = self.shelves[shard].frame_of(cell, seat);
        Job {
            errand,
            region: Arc::clone(region),
            key: cell.shard.key(seat),
            shard,
            seat,
            buffer: frame.buffer().clone(),
            at: frame.at(),
            sent_at: Time::ZERO,
            way: FetchPath::Direct,
            founds: false,
            shuns_agent: false,
            piece_bytes: 0,
            next: 0,
            sent: 0,
            under_way: 0,
            has_failed: false,
            is_uncertain: false,
        }
    }

    /// Copies a chunk from where its server's bytes are mapped, and moves it in, in a turn that began at `turn`. Gives the job
    /// back if they are not mapped.
    pub(super) fn fetch_at_once(&self, job: Job, turn: Time) -> Option<Job> {
        let Some(source) = job.region.source() else { return Some(job) };
        let begun = self.space.time(turn);
        let (offset, len) = job.region.offset(job.key);
        let from = source.window(offset as usize, len);
        from.read_into(&mut job.buffer.window_mut().part(job.at, len));
        if job.region.spec.path == Path::Auto {
            let now = self.space.time(turn);
            job.region.chooser().took(PathOption::Direct, now.since(begun), len, now);
        }
        add(&job.region.tally.direct, len as u64);
        self.fetched(&job);
        None
    }

    /// The bytes of a chunk have arrived in its seat.
    pub(super) fn fetched(&self, job: &Job) {
        let Job { region, key, shard, seat, .. } = job;
        let (_, len) = region.offset(*key);
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
            return self.space.announce();
        }
        let frame = self.shelves[*shard].frame_of(&cell, *seat);
        if len < frame.len() {
            // A frame is moved with all its pages, also with those behind the end of the region.
            frame.part(len, frame.len() - len).clear();
        }
        if region.spec.writable {
            if cell.shard.is_for_writing(*seat) && self.saves_are_cheap.load(Ordering::Relaxed) {
                cell.shard.set_changed(*seat);
            } else {
                self.take_fingerprints(&mut cell, *shard, *seat, &PageSet::first(len.div_ceil(PAGE)));
            }
        }
        let stay = matches!(job.errand, Errand::Ahead { stay: true });
        if cell.shard.filled(*seat, stay) == ArrivalStep::MoveIn {
            match region.place(*key, &cell) {
                Some(place) => {
                    self.move_in(&cell, *shard, (region, *key), *seat, place);
                    cell.shard.arrived(*seat);
                }
                None => _ = cell.shard.failed(*seat),
            }
        }
        drop(cell);
        self.tell_waiting();
    }

    /// The bytes of a chunk cannot be had.
    pub(super) fn fetch_failed(&self, job: &Job) {
        let mut cell = self.shelves[job.shard].lock();
        cell.shard.failed(job.seat);
        // Those who wait come again; if the server is lost they are told so.
        let is_lost = job.region.is_lost() && self.config.on_loss == OnLoss::Signal;
        if is_lost && !mutant("paging.loss-untold") {
            self.poison(&job.region, job.key);
        } else if !is_lost {
            self.space.wake(job.region.span_of(job.key));
        }
        drop(cell);
        self.space.announce();
    }

    /// Moves a chunk from its seat back into the region, unless that is closing: then no thread waits there.
    pub(super) fn rescue(
        &self,
        cell: &mut Cell,
        shard: usize,
        (region, key): (&PagedRegion, ChunkKey),
        seat: SeatId,
    ) {
        if region.spec.writable && !cell.shard.has_baseline(seat) && !cell.shard.is_changed(seat) {
            if cell.shard.is_for_writing(seat) {
                cell.shard.set_changed(seat);
            } else {
                let (_, len) = region.offset(key);
                self.take_fingerprints(cell, shard, seat, &PageSet::first(len.div_ceil(PAGE)));
            }
        }
        if let Some(place) = region.place(key, cell) {
            self.move_in(cell, shard, (region, key), seat, place);
            cell.shard.rescued(seat);
        }
    }

    fn move_in(
        &self,
        cell: &Cell,
        shard: usize,
        chunk: (&PagedRegion, ChunkKey),
        seat: SeatId,
        place: Place<'_>,
    ) {
        let (region, frame) = (chunk.0, self.shelves[shard].frame_of(cell, seat));
        if let Err(error) = self.space.move_in(frame, place, region.spec.writable) {
            self.give_up(region, ("into", frame), place, &error);
        }
    }
}
