//! Faults that found no seat, and what is given up for them.

use std::sync::atomic::Ordering;

use outboard_paging::pager::{ChunkKey, State};

use super::Pages;
use super::chunks::Outcome;
use super::pages::{Cell, Chore};
use super::service::say;

impl Pages {
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
                    State::Absent => self.poison(&region, key.index),
                    _ => self.space.wake(region.place(key.index), region.chunk_bytes()),
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
            say(&format!(
                "outboard: changed chunks of lost far memory “{name}” are given up, for what is not lost needs their places\n"
            ));
        }
        true
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
}
