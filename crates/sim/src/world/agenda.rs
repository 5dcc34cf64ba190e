//! The order of coming events.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use fastrand::Rng;
use outboard_wire::Time;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// A node runs, if this is still the time it wants.
    Wake(usize),
    /// A node calls another, by the number of the call.
    Dial(usize),
    /// A node loses everything.
    Crash(usize),
    /// A node begins a new life.
    Start(usize),
    /// A node stops running for a while.
    Pause(usize),
}

struct Item {
    at: Time,
    /// Events of one time happen in an order that no node can rely on.
    luck: u32,
    number: u64,
    what: Happening,
}

impl Item {
    fn key(&self) -> (Time, u32, u64) {
        (self.at, self.luck, self.number)
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap hands out its greatest, and the earliest is wanted.
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Item {}

/// All that is going to happen, earliest first.
#[derive(Default)]
pub(super) struct Agenda {
    items: BinaryHeap<Item>,
    number: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, random: &mut Rng, at: Time, what: Happening) {
        self.number += 1;
        self.items.push(Item { at, luck: random.u32(..), number: self.number, what });
    }

    /// Takes the first thing that happens no later than `end`.
    pub(super) fn next(&mut self, end: Time) -> Option<(Time, Happening)> {
        if self.items.peek()?.at > end {
            return None;
        }
        self.items.pop().map(|item| (item.at, item.what))
    }
}
