//! Faults: threads that wait for chunks, and what is given up for them if there is no seat.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::chunks::{Access, Answer, ChunkKey, State};
use super::jobs::{Errand, Job};
use super::pager::Pager;
use super::pages::{Cell, Chore, Pages};
use super::region::PagedRegion;
use super::space::{Cause, Fault, Faults, PageSpace, Span};

/// What a fault leads to.
pub(super) enum Outcome {
    /// Nothing that this thread has to do.
    Settled,
    /// Bytes are to be fetched.
    Fetch(Job),
}

impl<S: PageSpace> Pager<S> {
    /// Answers the faults that wait, and notes where the application is going. Returns whether there were any.
    pub(super) fn read_faults(&mut self) -> bool {
        if std::mem::take(&mut self.has_no_faults) || !self.pages.hear(&mut self.faults) {
            return false;
        }
        let faults = std::mem::take(&mut self.faults);
        for fault in &faults.list {
            if let Outcome::Fetch(job) = self.pages.fault(*fault) {
                self.dispatch(job);
            }
            if fault.cause != Cause::Protected
                && self.touched.len() < self.touched.capacity()
                && let Some(touched) = self.pages.find(fault.address)
            {
                self.touched.push_back(touched);
            }
        }
        self.has_no_faults = !faults.is_full;
        self.faults = faults;
        true
    }
}

impl<S: PageSpace> Pages<S> {
    /// Takes what the kernel has to tell. Returns false if there is nothing.
    pub(super) fn hear(&self, faults: &mut Faults) -> bool {
        self.hearing.fetch_add(1, Ordering::AcqRel);
        let has_something = self.space.read_faults(faults);
        if has_something && let Some(change) = &faults.change {
            self.end_over(change);
        }
        self.hearing.fetch_sub(1, Ordering::AcqRel);
        has_something
    }

    /// A thread waits at an address.
    fn fault(&self, fault: Fault) -> Outcome {
        let page_bytes = self.space.page_bytes();
        let page = Span { start: fault.address & !(page_bytes - 1), len: page_bytes };
        let Some((region, index)) = self.find(fault.address) else {
            self.fault_elsewhere(page);
            return Outcome::Settled;
        };
        if !region.spec.writable && fault.cause != Cause::Read {
            self.forbid(&region, index, page);
            return Outcome::Settled;
        }
        if fault.cause == Cause::Protected {
            self.space.wake(page);
            return Outcome::Settled;
        }
        if region.is_closing() {
            return Outcome::Settled;
        }
        let access = if fault.cause == Cause::Write { Access::Write } else { Access::Read };
        self.fault_on_chunk(&region, index, access, Some(page))
    }

    /// A thread stores to a page of a read-only region, here or not: that ends as in any read-only memory.
    fn forbid(&self, region: &PagedRegion, index: u32, page: Span) {
        // Pages are moved to and from writable memory alone, so the chunk must not move meanwhile.
        let cell = self.shelves[self.shard_of(region.key(index))].lock();
        if let Some(place) = region.place(index, &cell) {
            region.has_forbidden.store(true, Ordering::Release);
            self.space.forbid(place.part(page));
        }
    }

    /// A thread waits at an address that is no region's. Nothing is mapped there any more, or somebody has enlarged the mapping
    /// of a region.
    fn fault_elsewhere(&self, page: Span) {
        // Whoever moves a range goes on when that was read, and may come here before the process has been ended for it.
        if self.hearing.load(Ordering::Acquire) == 0 {
            self.space.poison(page);
        }
        self.space.wake(page);
    }

    /// A thread waits for a chunk, and at this page of it if that is known.
    fn fault_on_chunk(
        &self,
        region: &Arc<PagedRegion>,
        index: u32,
        access: Access,
        page: Option<Span>,
    ) -> Outcome {
        let key = region.key(index);
        let shard = self.shard_of(key);
        let mut cell = self.shelves[shard].lock();
        let class = region.spec.class;
        // The kernel may hold every chunk that is in the region, until those that are on their way have arrived.
        let mut held = 0;
        if region.is_lost() && cell.shard.state(key) == State::Absent {
            self.poison(region, index, &cell);
            return Outcome::Settled;
        }
        loop {
            match cell.shard.fault(key, class, access) {
                Answer::Here => {
                    // It has come since, or should be there and is not.
                    if page.is_some_and(|page| self.is_gone(&mut cell, (region, index), page)) {
                        continue;
                    }
                    self.space.wake(region.addresses_of(index));
                }
                Answer::Joined => {}
                Answer::Parked => {
                    if self.sacrifice(&mut cell) {
                        cell.shard.give_up_parked(|parked| parked == key);
                        continue;
                    }
                }
                Answer::Rescue(seat) => self.rescue(&mut cell, shard, (region, index), seat),
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

    /// A fault that was parked and may be answered now.
    pub(super) fn unpark(&self, shard: usize) -> Option<Outcome> {
        if !self.shelves[shard].has(Chore::Unpark) {
            return None;
        }
        let (key, _, access) = self.shelves[shard].lock().shard.unpark()?;
        let region = self.region(key.region)?;
        Some(self.fault_on_chunk(&region, key.index, access, None))
    }

    /// Whether threads wait for seats.
    pub(super) fn has_parked(&self) -> bool {
        self.shelves.iter().any(|shelf| shelf.has(Chore::Unpark))
    }

    /// Tells threads that wait for seats that what they want is lost.
    pub(super) fn give_up_parked(&self) {
        for shelf in &self.shelves {
            let is_lost = |key: ChunkKey| self.region(key.region).is_none_or(|region| region.is_lost());
            let mut cell = shelf.lock();
            while let Some(key) = cell.shard.give_up_parked(is_lost) {
                let Some(region) = self.region(key.region) else { continue };
                // It may have come since, for somebody else.
                match cell.shard.state(key) {
                    State::Absent => self.poison(&region, key.index, &cell),
                    _ => self.space.wake(region.addresses_of(key.index)),
                }
            }
            // Those who still wait would wait for ever for seats of chunks that nobody will take.
            for _ in 0..cell.shard.parked() {
                self.sacrifice(&mut cell);
            }
        }
    }

    /// Gives up a changed chunk of a lost region, for somebody needs its seat and there is no other. Returns whether there
    /// was one.
    pub(super) fn sacrifice(&self, cell: &mut Cell) -> bool {
        let is_lost = |key: ChunkKey| self.region(key.region).is_some_and(|region| region.is_lost());
        let Some(key) = cell.shard.sacrifice(is_lost) else { return false };
        if let Some(region) = self.region(key.region)
            && !region.has_given_up.swap(true, Ordering::AcqRel)
        {
            let name = &region.spec.name;
            self.space.say(&format!(
                "outboard: changed chunks of lost far memory “{name}” are given up, for what is not lost needs their places\n"
            ));
        }
        true
    }
}
