//! What the application does besides loading and storing: it flushes, pins, dismisses, unmaps and maps again.

use std::time::Duration;

use outboard_paging::pager::{Access, ChunkKey, State};
use outboard_wire::Time;

use super::application::Application;
use super::layout::{PLANS, REGIONS};

/// How long it waits before it looks again whether something has ended.
const POLL: Duration = Duration::from_micros(300);

/// A chunk that is kept in its region.
struct Pin {
    key: ChunkKey,
    until: Time,
    is_there: bool,
}

/// What is being done.
pub(super) struct Chores {
    /// What was stored when a flush began, for each region that is being flushed.
    flushes: [Option<Vec<u64>>; REGIONS],
    pin: Option<Pin>,
    next_at: Time,
    until: Time,
    is_last_flush_begun: bool,
}

impl Chores {
    pub(super) fn new(now: Time, until: Time) -> Self {
        Self { flushes: Default::default(), pin: None, next_at: now, until, is_last_flush_begun: false }
    }

    /// Whether nothing is left to do.
    pub(super) fn are_done(&self) -> bool {
        self.is_last_flush_begun && self.flushes.iter().all(Option::is_none)
    }

    /// When there is something to do next.
    pub(super) fn next_at(&self) -> Option<Time> {
        (!self.are_done()).then_some(self.next_at)
    }

    /// The chunk that must be in its region now.
    pub(super) fn pinned(&self) -> Option<ChunkKey> {
        let pin = self.pin.as_ref().filter(|pin| pin.is_there)?;
        // A flush moves it out for a while.
        self.flushes[super::pages::region_of(pin.key.region)].is_none().then_some(pin.key)
    }
}

impl Application {
    /// Returns whether anything was done.
    pub(super) fn do_chores(&mut self, now: Time) -> bool {
        if now < self.chores.next_at {
            return self.flush();
        }
        self.chores.next_at = now + POLL;
        self.keep_pin(now);
        if now < self.chores.until {
            self.begin_chore(now);
        } else if self.walkers.are_done()
            && !self.chores.is_last_flush_begun
            && self.pages.mappings.iter().all(|mapping| !mapping.is_leaving)
            && self.chores.flushes.iter().all(Option::is_none)
        {
            self.unpin();
            self.chores.is_last_flush_begun = true;
            (0..REGIONS).for_each(|region| self.begin_flush(region));
        }
        self.flush();
        false
    }

    fn begin_chore(&mut self, now: Time) {
        let region = self.random.usize(..REGIONS);
        let index = self.random.u32(..PLANS[region].chunks);
        let mapping = &mut self.pages.mappings[region];
        let key = ChunkKey { region: mapping.number, index };
        if mapping.is_leaving {
            return;
        }
        match self.random.u8(..64) {
            0 => self.begin_flush(region),
            1..=3 if self.chores.pin.as_ref().is_none_or(|pin| pin.key != key) => self.pages.dismiss(key),
            9 if self.chores.pin.is_none() => {
                let until = now + Duration::from_micros(self.random.u64(..20_000));
                self.chores.pin = Some(Pin { key, until, is_there: false });
            }
            // Rarely, for nobody can use the region meanwhile.
            10 if self.random.u8(..4) == 0 => {
                (mapping.is_leaving, mapping.is_given_up) = (true, self.random.bool());
                if self.chores.pin.as_ref().is_some_and(|pin| pin.key.region == key.region) {
                    self.unpin();
                }
            }
            _ => {}
        }
    }

    fn begin_flush(&mut self, region: usize) {
        if self.chores.flushes[region].is_none() && self.pages.is_writable(region) {
            let number = self.pages.mappings[region].number;
            self.recorder.note("flush", &[("region", number.into())]);
            self.chores.flushes[region] = Some(self.pages.model.stored(region));
            self.pages.cells.iter_mut().for_each(|cell| cell.shard.owe(number));
        }
    }

    /// Goes on with flushes, and with unmapping what was flushed for that.
    fn flush(&mut self) -> bool {
        let mut moved = false;
        for region in 0..REGIONS {
            let (number, is_leaving) =
                (self.pages.mappings[region].number, self.pages.mappings[region].is_leaving);
            if self.chores.flushes[region].is_some() && self.pages.write_back(number) == 0 {
                let stored = self.chores.flushes[region].take().unwrap_or_default();
                self.recorder.note("flushed", &[("region", number.into())]);
                self.pages.model.flushed(region, &stored);
                // Nobody has stored anything since it was left, if the flush began then.
                let all = self.pages.model.stored(region);
                self.pages.mappings[region].is_closing |=
                    is_leaving && stored == all && !self.walkers.waits_in(number);
                moved = true;
            }
            if !is_leaving || self.chores.flushes[region].is_some() {
                continue;
            }
            if self.pages.mappings[region].is_closing {
                moved |= self.unmap(region);
            } else if !self.walkers.waits_in(number) {
                let mapping = &mut self.pages.mappings[region];
                mapping.is_closing = mapping.is_given_up;
                if !mapping.is_closing {
                    self.begin_flush(region);
                }
                self.pages.mappings[region].is_closing |= self.chores.flushes[region].is_none();
            }
        }
        moved
    }

    /// Drops all chunks of a region; when the last has gone, the region is mapped anew.
    fn unmap(&mut self, region: usize) -> bool {
        let number = self.pages.mappings[region].number;
        for job in self.lanes.iter_mut().flat_map(|lane| lane.drain(number)).collect::<Vec<_>>() {
            self.pages.cells[job.shard].shard.failed(job.seat);
        }
        let mut under_way = 0;
        for (shard, cell) in self.pages.cells.iter_mut().enumerate() {
            let seats: Vec<_> = cell.shard.seats().collect();
            for (seat, key, state) in seats {
                if key.region == number && state == State::Resident {
                    self.pages.space.unmap(shard, cell.shard.frame(seat), key);
                }
            }
            under_way += cell.shard.forget(number);
        }
        let is_over = under_way == 0 && self.pages.mappings[region].fencing == 0;
        if is_over {
            self.recorder.note("mapped anew", &[("region", number.into())]);
            self.pages.map_anew(region);
        }
        is_over
    }

    fn keep_pin(&mut self, now: Time) {
        let Some(pin) = &mut self.chores.pin else { return };
        if now >= pin.until && pin.is_there {
            return self.unpin();
        }
        if !pin.is_there {
            let shard = self.pages.shard_of(pin.key);
            pin.is_there = self.pages.cells[shard].shard.pin(pin.key, true);
            if !pin.is_there {
                self.walkers.faults.push_back((pin.key, Access::Read));
            }
        }
    }

    fn unpin(&mut self) {
        if let Some(pin) = self.chores.pin.take() {
            let shard = self.pages.shard_of(pin.key);
            self.pages.cells[shard].shard.pin(pin.key, false);
        }
    }
}
