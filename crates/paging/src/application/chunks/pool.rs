//! One budget of bytes for all shards, which may change.
//!
//! Each shard has a share that it can always get. What no shard has taken, any shard may take beyond its share, and it gives
//! that back to a shard that wants its own. So memory that is enough for all chunks together is enough for each shard, wherever
//! its chunks happen to be. Where the budget shrinks, shards that have more than their shares of what is left give seats back.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many chunks a shard must have room for: what one instruction can touch, and some to spare.
pub const SEATS_MIN: usize = 4;

/// While more than one part in so many is free, there is room.
const ROOM: usize = 16;

/// The budget of all shards.
#[derive(Debug)]
pub struct Pool {
    budget: AtomicUsize,
    /// How large the budget may become.
    most: usize,
    shards: usize,
    used: AtomicUsize,
    /// How many bytes shards want of their shares that others have.
    claimed: AtomicUsize,
    /// How many shards have threads that wait and nothing to move out for them.
    starving: AtomicUsize,
}

impl Pool {
    /// A budget of so many bytes for so many shards, of which nothing is taken. It stays at most so large.
    pub fn new(budget: usize, most: usize, shards: usize) -> Self {
        let zero = || AtomicUsize::new(0);
        let budget = AtomicUsize::new(budget);
        Self { budget, most, shards, used: zero(), claimed: zero(), starving: zero() }
    }

    /// How many bytes all shards may have now.
    pub fn budget(&self) -> usize {
        self.budget.load(Ordering::Acquire)
    }

    /// Lets all shards have so many bytes from now on, which are no more than it may become. Those that have too many give
    /// them back by and by. Returns how many it was before.
    pub fn set_budget(&self, budget: usize) -> usize {
        self.budget.swap(budget.min(self.most), Ordering::AcqRel)
    }

    /// How many bytes all shards have.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// How many bytes a shard can always have.
    pub fn share(&self) -> usize {
        self.budget() / self.shards
    }

    /// How many bytes of seats one shard may have at most, whatever the budget becomes.
    pub fn most_of_shard(&self) -> usize {
        (2 * (self.most / self.shards)).min(self.most)
    }

    /// How many bytes are not taken.
    pub fn free(&self) -> usize {
        self.budget().saturating_sub(self.used())
    }

    /// Whether there is so much room that it matters little what else comes with a chunk.
    pub fn has_room(&self) -> bool {
        self.free() > self.budget() / ROOM
    }

    /// How many bytes a shard that has its share could take: what is free and not claimed.
    pub(super) fn spare(&self) -> usize {
        self.free().saturating_sub(self.claimed.load(Ordering::Acquire))
    }

    /// Takes bytes if so many are free; beyond a shard's share, if no shard claims them.
    pub(super) fn take(&self, bytes: usize, is_beyond_share: bool) -> bool {
        let reserved = if is_beyond_share { self.claimed.load(Ordering::Acquire) } else { 0 };
        let budget = self.budget();
        let take = |used: usize| (used + bytes + reserved <= budget).then_some(used + bytes);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }

    pub(super) fn claim(&self, bytes: usize) {
        self.claimed.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn unclaim(&self, bytes: usize) {
        self.claimed.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// How many bytes have to come free: those that shards want of their shares, and those that are more than the budget.
    pub fn wanted(&self) -> usize {
        (self.claimed.load(Ordering::Acquire) + self.used()).saturating_sub(self.budget())
    }

    /// Whether shards have more than the budget, which has shrunk.
    pub fn is_over(&self) -> bool {
        self.used() > self.budget()
    }

    pub(super) fn starve(&self, is_starving: bool) {
        match is_starving {
            true => self.starving.fetch_add(1, Ordering::AcqRel),
            false => self.starving.fetch_sub(1, Ordering::AcqRel),
        };
    }

    pub(super) fn has_starving(&self) -> bool {
        self.starving.load(Ordering::Acquire) > 0
    }
}
