//! How hot a page must be for its writes to be offloaded while cold ones are unloaded.

use super::class::Costs;
use super::heat::TOUCH;

/// The least heat that can be asked for: a second touch within living memory.
const LEAST: u32 = TOUCH + TOUCH / 2;
/// Beyond this no page is hot enough.
const MOST: u32 = 1 << 15;
/// Lessons between two reviews.
const REVIEW: u32 = 512;

/// The warmth of a page that was offloaded in vain.
pub(super) const BURNT: u8 = u8::MAX;
/// No page is warmer.
const WARMEST: u8 = BURNT - 1;
/// Writes in which a page that has come to be offloaded has to show at least that this pays.
const PROBATION_MIN: u8 = 32;

/// The warmth of a page that had this one before yet another write to it was offloaded.
#[inline]
pub(super) fn warmer(warmth: u8) -> u8 {
    if warmth == BURNT { 1 } else { (warmth + 1).min(WARMEST) }
}

/// Where a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    /// Below the frontier: not to be offloaded.
    Beyond,
    /// Below the frontier, but one of the few that try what it would be like if it were lower. A page that was touched once
    /// has shown nothing yet and is none of them.
    Scout,
    /// Above it, and offloaded for a short while only: it has to show yet that this pays.
    Edge,
    /// Above it, and offloaded for long.
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

    /// What offloading these writes has saved over unloading them, and what it has lost, in nanoseconds.
    fn saved_and_lost(self, costs: Costs) -> (i64, i64) {
        let saved = costs.unload as i64 - costs.warm as i64;
        let lost = costs.cold as i64 - costs.unload as i64;
        (i64::from(self.hits) * saved, i64::from(self.misses) * lost)
    }

    fn pays(self, times: i64, costs: Costs) -> bool {
        let (saved, lost) = self.saved_and_lost(costs);
        saved > times * lost
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
    /// Writes in which a page has to show that it pays: as many as would pay for a miss twice, and some more.
    probation: u8,
}

impl Frontier {
    pub(super) fn new() -> Self {
        let none = Tally::default();
        Self { heat: LEAST, scouts: none, edge: none, again: none, left: REVIEW, probation: PROBATION_MIN }
    }

    /// Where a page of this heat stands. One that was offloaded stays so until it is a good deal colder.
    #[inline]
    pub(super) fn zone(&self, heat: u32, warmth: u8, hash: u64) -> Zone {
        let counted = match warmth {
            0 => heat,
            BURNT => heat / 2,
            _ => 2 * heat,
        };
        if counted >= self.heat {
            if warmth > self.probation && warmth != BURNT { Zone::Core } else { Zone::Edge }
        } else if (hash >> 20) & 31 == 0 && 2 * counted >= self.heat && heat > LEAST {
            Zone::Scout
        } else {
            Zone::Beyond
        }
    }

    /// An offloaded write has ended. `was_warm` says whether the page's former write was offloaded.
    pub(super) fn learn(&mut self, zone: Zone, was_warm: bool, is_miss: bool, costs: Costs) {
        match zone {
            Zone::Scout => self.scouts.add(is_miss),
            Zone::Edge => self.edge.add(is_miss),
            Zone::Core | Zone::Beyond => {}
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
        let (saved, lost) = self.again.saved_and_lost(costs);
        let (hit, miss) = Tally { hits: 1, misses: 1 }.saved_and_lost(costs);
        let twice = 2 * miss / hit.max(1);
        let writes = (twice + twice / 4).clamp(PROBATION_MIN.into(), (WARMEST - 1).into());
        self.probation = u8::try_from(writes).unwrap_or(PROBATION_MIN);
        let edge_pays = self.edge.total() < 16 || self.edge.pays(2, costs);
        let scouts_pay = self.scouts.total() >= 8 && self.scouts.pays(2, costs);
        self.heat = match () {
            () if lost > saved => self.heat + self.heat / 4,
            () if 20 * lost > 3 * saved || !edge_pays => self.heat + self.heat / 8,
            () if 20 * lost < saved && scouts_pay => self.heat - self.heat / 8,
            () => self.heat,
        }
        .clamp(LEAST, MOST);
        for tally in [&mut self.scouts, &mut self.edge, &mut self.again] {
            tally.halve();
        }
    }
}
