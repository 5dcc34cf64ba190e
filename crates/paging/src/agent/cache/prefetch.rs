//! The choice of entries to read ahead of the requests.
//!
//! A movement through a region (piece after piece, entry after entry, or by equal steps) has the rest of its entry
//! read ahead, and the next entries. How many, grows with every entry that was read ahead and then used, and is
//! halved by one that was evicted unused. An entry that is visited at several places without a pattern is read
//! as a whole. Unless piece follows piece, all this is only done while it has been useful lately, or else now and
//! then. And it is a plan only: it is carried out when little else is under way.

use std::collections::VecDeque;

use super::entry::EntryKey;
use super::pieces::PieceSet;
use super::region::Region;

/// How many entries are planned at most; more push out the least urgent.
const TARGETS_MAX: usize = 64;
/// Reading ahead on weak evidence is useful while at least this share is used, in 256ths.
const USEFUL_MIN: u32 = 64;
/// When it is not, it is tried once in so many times.
const TRY_ONE_IN: u32 = 32;
/// How fast experience replaces experience: one part in so many.
const MEMORY: u32 = 8;

/// An entry to read ahead, and which pieces of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) key: EntryKey,
    pub(crate) pieces: PieceSet,
}

/// The entries to read ahead, the most urgent first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Targets(VecDeque<Target>);

impl Targets {
    pub(crate) fn with_room() -> Self {
        Self(VecDeque::with_capacity(TARGETS_MAX))
    }

    /// Adds a target; an urgent one goes before all others.
    pub(crate) fn add(&mut self, target: Target, is_urgent: bool) {
        if let Some(known) = self.0.iter_mut().find(|known| known.key == target.key) {
            known.pieces = known.pieces.with(target.pieces);
            return;
        }
        if self.0.len() == TARGETS_MAX {
            self.0.pop_back();
        }
        if is_urgent {
            self.0.push_front(target);
        } else {
            self.0.push_back(target);
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Target> {
        self.0.get(index).copied()
    }

    pub(crate) fn remove(&mut self, index: usize) {
        self.0.remove(index);
    }

    pub(crate) fn forget(&mut self, region: u32) {
        self.0.retain(|target| target.key.region != region);
    }
}

impl Region {
    /// An entry that was read ahead has been used.
    pub(crate) fn read_ahead_paid(&mut self, depth_max: u32) {
        self.depth = (self.depth + 1).min(depth_max.max(1));
    }

    /// An entry goes, of which so many pieces were read ahead and so many of these not used.
    pub(crate) fn judge_read_ahead(&mut self, prefetched: u32, unused: u32) {
        if prefetched == 0 {
            return;
        }
        let used = 256 * (prefetched - unused.min(prefetched)) / prefetched;
        self.usefulness = (self.usefulness * (MEMORY - 1) + used) / MEMORY;
        if unused * 2 > prefetched {
            self.depth = (self.depth / 2).max(1);
        }
    }

    /// Whether to read ahead on weak evidence.
    pub(crate) fn is_worth_a_try(&mut self) -> bool {
        if self.usefulness >= USEFUL_MIN {
            return true;
        }
        self.declined = (self.declined + 1) % TRY_ONE_IN;
        self.declined == 0
    }
}
