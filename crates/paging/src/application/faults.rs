//! Faults: threads that wait for chunks, and what is given up for them if there is no seat.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_wire::mutant;

use super::chunks::{Access, Answer, ChunkKey, State};
use super::departures::Making;
use super::jobs::{Errand, Job};
use super::mistakes::Found;
use super::pager::Pager;
use super::pages::{Cell, CellGuard, Chore, Pages};
use super::region::PagedRegion;
use super::space::{Cause, Fault, Faults, PageSpace, Span};

/// The consequence of a fault.
pub(super) enum Outcome {
    /// Nothing that this thread has to do: the threads that wait may try again.
    Settled,
    /// Nothing that this thread has to do: the chunk is on its way, or waits for a seat.
    Waits,
    /// The wanted bytes are lost for good: touching them raises a signal.
    Lost,
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
        self.pages.waiting.heard(faults.list.len(), self.now);
        for fault in &faults.list {
            if let Outcome::Fetch(job) = self.pages.fault(*fault) {
                self.dispatch(job);
            }
            if fault.cause != Cause::Protected
                && self.touched.len() < self.touched.capacity()
                && let Some((region, index)) = self.pages.find(fault.address)
            {
                let page = region.page_at(fault.address);
                self.touched.push_back((region, index, page));
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
    pub(super) fn fault(&self, fault: Fault) -> Outcome {
        let page_bytes = self.space.page_bytes();
        let page = fault.address.page(page_bytes);
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
        if let Some(recorder) = &self.recorder {
            recorder.touch(region.key(index));
        }
        let access = if fault.cause == Cause::Write { Access::Write } else { Access::Read };
        let shard = self.shard_of(region.key(index));
        let mut cell = self.shelves[shard].lock();
        let key = self.unit(&mut cell, shard, &region, (index, region.page_at(fault.address)));
        self.fault_on(&region, key, access, Some(page), cell)
    }

    /// A thread stores to a page of a read-only region, here or not: that ends as in any read-only memory.
    fn forbid(&self, region: &PagedRegion, index: u32, page: Span) {
        let key = region.key(index);
        let cell = self.shelves[self.shard_of(key)].lock();
        if let Some(place) = region.place(key, &cell) {
            self.space.forbid(place.part(page));
        }
    }

    /// A thread waits at an address that is no region's. Nothing is mapped there any more, or another thread has enlarged the mapping
    /// of a region.
    fn fault_elsewhere(&self, page: Span) {
        // A thread that moves a range goes on when that was read, and may come here before the process has been ended for it.
        if self.hearing.load(Ordering::Acquire) == 0 {
            self.space.poison(page);
        }
        self.space.wake(page);
    }

    /// A thread waits for a chunk or a page of one, and at these addresses of it if they are known.
    fn fault_on(
        &self,
        region: &Arc<PagedRegion>,
        key: ChunkKey,
        access: Access,
        page: Option<Span>,
        mut cell: CellGuard<'_>,
    ) -> Outcome {
        let (shard, class) = (self.shard_of(key), region.class_of(key));
        let mut making = Making::default();
        if region.is_lost() && cell.shard.state(key) == State::Absent {
            self.poison(region, key);
            return Outcome::Lost;
        }
        loop {
            let answer = cell.shard.fault(key, class, access);
            self.discard_frames(&mut cell, shard);
            match answer {
                Answer::Here => {
                    // It has come since, or should be there and is not.
                    let found = page.map(|page| self.miss(&mut cell, (region, key), page));
                    if found == Some(Found::Vanished) {
                        continue;
                    }
                    self.space.wake(region.span_of(key));
                    if found == Some(Found::ThrownAway) {
                        return Outcome::Lost;
                    }
                }
                Answer::Joined => return Outcome::Waits,
                Answer::Parked => {
                    if self.sacrifice(&mut cell) {
                        cell.shard.give_up_parked(|parked| parked == key);
                        continue;
                    }
                    return Outcome::Waits;
                }
                Answer::Rescue(seat) => self.rescue(&mut cell, shard, (region, key), seat),
                Answer::Fetch(seat) => {
                    let job = self.fill(&mut cell, shard, region, seat, Errand::Demand);
                    return job.map_or(Outcome::Settled, Outcome::Fetch);
                }
                Answer::MakeRoom => {
                    if self.move_out_for(&mut cell, shard, &mut making) {
                        continue;
                    }
                    cell.shard.park(key, class, access);
                    return Outcome::Waits;
                }
            }
            return Outcome::Settled;
        }
    }

    /// A fault that was parked and may be answered now.
    pub(super) fn unpark(&self, shard: usize) -> Option<Outcome> {
        // No seat is taken from another chunk while the process forks: it would be parked again.
        if !self.shelves[shard].has(Chore::Unpark) || self.children.is_still() {
            return None;
        }
        let (key, _, access) = self.shelves[shard].lock().shard.unpark()?;
        let region = self.region(key.region)?;
        let cell = self.shelves[shard].lock();
        if cell.shard.clashes(key, region.pages()) && !mutant("paging.parked-in-another-grain") {
            // It was divided meanwhile, or came as a whole. Those who wait come again.
            self.space.wake(region.addresses_of(key.index));
            return Some(Outcome::Settled);
        }
        Some(self.fault_on(&region, key, access, None, cell))
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
                // It may have come since, for another thread.
                let is_absent = cell.shard.state(key) == State::Absent;
                match is_absent && !cell.shard.clashes(key, region.pages()) {
                    true => self.poison(&region, key),
                    false => self.space.wake(region.addresses_of(key.index)),
                }
            }
            // Those who still wait would wait for ever for seats of chunks that no server will take.
            for _ in 0..cell.shard.parked() {
                self.sacrifice(&mut cell);
            }
        }
    }

    /// Gives up a changed chunk of a lost region, for a thread needs its seat and there is no other. Returns whether there
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
