//! How hot a page must be for its writes to be offloaded while cold ones are unloaded.

use super::class::Costs;
use super::heat::TOUCH;

/// The least heat that can be asked for: a second touch within living memory.
const LEAST: u32 = TOUCH + TOUCH / 2;
/// Beyond this no page is hot enough.
const MOST: u32 = 1 << 15;
/// Lessons between two reviews.
const REVIEW: u32 = 512;

/// Where a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Below the frontier: not to be offloaded.
    Beyond,
    /// Below the frontier, but one of the few that try what it would be like if it were lower.
    Scout,
    /// Just above it.
    Edge,
    /// Far above it.
    Core,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    hits: u32,
    misses: u32,
}

impl Tally {
    fn add(&mut self, is_miss: bool) {
        if is_miss { self.misses += 1 } else { self.hits += 1 }
    }

    fn halve(&mut self) {
        self.hits /= 2;
        self.misses /= 2;
    }

    fn total(self) -> u32 {
        self.hits + self.misses
    }

    /// What offloading these writes has saved over unloading them, in nanoseconds.
    fn gain(self, costs: Costs) -> i64 {
        let saved = costs.unload as i64 - costs.warm as i64;
        let lost = costs.cold as i64 - costs.unload as i64;
        i64::from(self.hits) * saved - i64::from(self.misses) * lost
    }
}

/// Moves so that what is offloaded is what pays: lower while the pages beyond it would pay and those above it are still
/// at hand when they are written again, higher when they are not.
#[derive(Debug)]
pub(super) struct Frontier {
    pub(super) heat: u32,
    scouts: Tally,
    edge: Tally,
    /// Writes to pages whose former write was offloaded.
    again: Tally,
    left: u32,
}

impl Frontier {
    pub(super) fn new() -> Self {
        let none = Tally::default();
        Self { heat: LEAST, scouts: none, edge: none, again: none, left: REVIEW }
    }

    /// Where a page of this heat stands. One that was offloaded stays so until it is a good deal colder.
    #[inline]
    pub(super) fn standing(&self, heat: u32, is_warm: bool, hash: u64) -> Standing {
        let counted = if is_warm { heat + heat / 2 } else { heat };
        if counted >= self.heat {
            if heat > self.heat + self.heat / 2 { Standing::Core } else { Standing::Edge }
        } else if (hash >> 20) & 31 == 0 && 2 * counted >= self.heat {
            Standing::Scout
        } else {
            Standing::Beyond
        }
    }

    /// An offloaded write has ended. `was_warm` says whether the page's former write was offloaded.
    pub(super) fn learn(&mut self, standing: Standing, was_warm: bool, is_miss: bool, costs: Costs) {
        match standing {
            Standing::Scout => self.scouts.add(is_miss),
            Standing::Edge => self.edge.add(is_miss),
            Standing::Core | Standing::Beyond => {}
        }
        if was_warm {
            self.again.add(is_miss);
        }
        self.left -= 1;
        if self.left == 0 {
            self.review(costs);
        }
    }

    #[cold]
    fn review(&mut self, costs: Costs) {
        self.left = REVIEW;
        let again = self.again.total().max(1);
        let missed_percent = self.again.misses * 100 / again;
        let edge_pays = self.edge.total() < 16 || self.edge.gain(costs) >= 0;
        let scouts_pay = self.scouts.total() >= 8 && self.scouts.gain(costs) > 0;
        self.heat = match () {
            () if missed_percent > 25 => self.heat + self.heat / 4,
            () if missed_percent > 10 || !edge_pays => self.heat + self.heat / 8,
            () if missed_percent < 6 && scouts_pay => self.heat - self.heat / 8,
            () => self.heat,
        }
        .clamp(LEAST, MOST);
        for tally in [&mut self.scouts, &mut self.edge, &mut self.again] {
            tally.halve();
        }
    }
}
