//! Chunks that come: from a server or an agent into their seats, and from there into the region.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_wire::{Time, mutant};

use super::OnLoss;
use super::chunks::{Placement, SeatId};
use super::fingerprint::PAGE;
use super::jobs::{Errand, Job, PageSet};
use super::pages::{Cell, Pages};
use super::region::{PagedRegion, Way};
use super::space::{PageSpace, Place};
use super::stats::add;

impl<S: PageSpace> Pages<S> {
    /// A chunk that will be wanted, unless there is no seat for it or it is known.
    pub(super) fn ahead(&self, region: &Arc<PagedRegion>, index: u32, stay: bool) -> Option<Job> {
        let key = region.key(index);
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
        let frame = self.shelves[shard].frame_of(cell, seat);
        Job {
            errand,
            region: Arc::clone(region),
            index: cell.shard.key(seat).index,
            shard,
            seat,
            buffer: frame.buffer().clone(),
            at: frame.at(),
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
        let (_, len) = region.offset(*index);
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
        if len < region.chunk_bytes() {
            // A frame is moved with all its pages, also with those behind the end of the region.
            self.shelves[*shard].frame_of(&cell, *seat).part(len, region.chunk_bytes() - len).clear();
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
            match region.place(*index, &cell) {
                Some(place) => {
                    self.move_in(&cell, *shard, (region, *index), *seat, place);
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
        if is_lost && !mutant("paging.loss-told-to-nobody") {
            self.poison(&job.region, job.index, &cell);
        } else if !is_lost {
            self.space.wake(job.region.addresses_of(job.index));
        }
        drop(cell);
        self.space.announce();
    }

    /// Moves a chunk from its seat back into the region, unless that is closing: then no thread waits there.
    pub(super) fn rescue(
        &self,
        cell: &mut Cell,
        shard: usize,
        (region, index): (&PagedRegion, u32),
        seat: SeatId,
    ) {
        if region.spec.writable && !cell.shard.has_baseline(seat) && !cell.shard.is_changed(seat) {
            if cell.shard.is_for_writing(seat) {
                cell.shard.set_changed(seat);
            } else {
                let (_, len) = region.offset(index);
                self.take_fingerprints(cell, shard, seat, &PageSet::first(len.div_ceil(PAGE)));
            }
        }
        if let Some(place) = region.place(index, cell) {
            self.move_in(cell, shard, (region, index), seat, place);
            cell.shard.rescued(seat);
        }
    }

    fn move_in(&self, cell: &Cell, shard: usize, chunk: (&PagedRegion, u32), seat: SeatId, place: Place<'_>) {
        let (region, frame) = (chunk.0, self.shelves[shard].frame_of(cell, seat));
        if region.has_forbidden.load(Ordering::Acquire) {
            self.space.permit(place);
        }
        if let Err(error) = self.space.move_in(frame, place, region.spec.writable) {
            self.give_up(chunk, ("into", frame), place, &error);
        }
    }
}
