//! Chunks that stay in the region for a moment, and chunks that are given up.

use super::chunk::ChunkKey;
use super::shard::Shard;
use super::state::{Event, State};

impl Shard {
    /// Keeps a chunk that is in the region there, until [`release`](Shard::release) was said as often. Returns whether it is
    /// there.
    pub fn hold(&mut self, key: ChunkKey) -> bool {
        let Some(&index) = self.chunks.get(&key) else { return false };
        let seat = self.seat_mut(index);
        let is_there = matches!(seat.state, State::Resident | State::Returned);
        seat.holds += u32::from(is_there);
        is_there
    }

    /// Keeps a chunk no longer than others want.
    pub fn release(&mut self, key: ChunkKey) {
        if let Some(&index) = self.chunks.get(&key) {
            let seat = self.seat_mut(index);
            // One that vanished meanwhile has come back without its holds.
            seat.holds = seat.holds.saturating_sub(1);
        }
    }

    /// A chunk is in the region no longer, though it was not moved out, and is the same at the server.
    pub fn vanished(&mut self, key: ChunkKey) {
        if let Some(&index) = self.chunks.get(&key)
            && self.seat(index).state == State::Resident
        {
            self.drop_resident(index);
        }
    }

    /// Gives up the changed chunk that has waited longest for a server that will never take it, so that another gets its
    /// seat.
    pub fn sacrifice(&mut self, is_hopeless: impl Fn(ChunkKey) -> bool) -> Option<ChunkKey> {
        let mut candidate = self.dirty.oldest();
        while let Some(index) = candidate {
            let key = self.seat(index).key;
            if is_hopeless(key) && !self.seat(index).is_pinned {
                self.dirty.remove(&mut self.links, index);
                self.go(index, Event::Evict);
                self.set_free(index);
                return Some(key);
            }
            candidate = self.dirty.newer(&self.links, index);
        }
        None
    }

    /// Takes a chunk out of the region, and its seat from it.
    pub(super) fn drop_resident(&mut self, index: u32) {
        self.resident.remove(&mut self.links, index);
        self.go(index, Event::LeaveClean);
        self.go(index, Event::Evict);
        self.set_free(index);
    }

    /// Whether a chunk in the region may be moved out now.
    pub(super) fn may_leave(&self, index: u32) -> bool {
        let seat = self.seat(index);
        seat.state == State::Resident && seat.holds == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Answer, Placement, ShardConfig, SizeClass};
    use super::*;

    const CLASS: SizeClass = SizeClass(12);

    fn key(region: u32, index: u32) -> ChunkKey {
        ChunkKey { region, index }
    }

    /// A shard with room for two chunks, both of which are in the region.
    fn full() -> Shard {
        let mut shard = Shard::new(ShardConfig::with_budget(2 << 12));
        for region in 0..2 {
            let Answer::Fetch(seat) = shard.fault(key(region, 0), CLASS, Access::Write) else {
                panic!("there is room");
            };
            assert_eq!(shard.filled(seat, false), Placement::MoveIn);
            shard.arrived(seat);
        }
        shard
    }

    #[test]
    fn what_is_held_stays_until_everybody_lets_go() {
        let mut shard = full();
        assert!(shard.hold(key(0, 0)) && shard.hold(key(0, 0)) && !shard.hold(key(0, 1)));
        shard.owe(0);
        for _ in 0..2 {
            assert_eq!(shard.oldest().map(|seat| shard.key(seat)), Some(key(1, 0)));
            assert_eq!((shard.resident(key(0, 0)), shard.owed_seat(key(0, 0))), (None, None));
            shard.release(key(0, 0));
        }
        assert!(shard.resident(key(0, 0)).is_some() && shard.owed_seat(key(0, 0)).is_some());
    }

    #[test]
    fn what_vanished_is_fetched_again() {
        let mut shard = full();
        assert!(shard.hold(key(0, 0)));
        shard.vanished(key(0, 0));
        assert_eq!(shard.state(key(0, 0)), State::Absent);
        assert!(matches!(shard.fault(key(0, 0), CLASS, Access::Read), Answer::Fetch(_)));
        shard.release(key(0, 0));
    }

    #[test]
    fn only_what_nobody_will_take_is_given_up() {
        let mut shard = full();
        while let Some(seat) = shard.oldest() {
            shard.left(seat, true);
        }
        assert_eq!(shard.fault(key(2, 0), CLASS, Access::Read), Answer::Parked);
        assert_eq!(shard.sacrifice(|_| false), None);
        assert_eq!(shard.sacrifice(|key| key.region == 1), Some(key(1, 0)));
        assert_eq!(shard.sacrifice(|key| key.region == 1), None);
        assert_eq!(shard.state(key(0, 0)), State::Dirty);
        let (key, class, access) = shard.unpark().expect("there is room now");
        assert!(matches!(shard.fault(key, class, access), Answer::Fetch(_)));
    }
}
