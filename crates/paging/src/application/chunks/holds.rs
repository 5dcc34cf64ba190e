//! Chunks that stay in the region for a moment, and chunks that are given up.

use std::ops::Range;

use super::chunk::{ChunkKey, SeatFrame, SeatId};
use super::shard::{Seat, Shard};
use super::state::{Event, State};

impl Shard {
    /// Keeps a chunk in the region, or no longer. Returns whether it is there.
    pub fn pin(&mut self, key: ChunkKey, is_pinned: bool) -> bool {
        let Some(&index) = self.chunks.get(&key) else { return false };
        let seat = self.seat_mut(index);
        seat.is_pinned = is_pinned;
        matches!(seat.state, State::Resident | State::Returned)
    }

    /// Whether a chunk is to be kept in the region.
    pub fn is_pinned(&self, seat: SeatId) -> bool {
        self.seat(seat.0).is_pinned
    }

    /// Whether the newest bytes of a chunk are in its seat.
    pub fn has_unsaved(&self) -> bool {
        self.unsaved_bytes > 0
    }

    /// Whether the bytes of a seat are being read for the server, and have to stay where they are.
    pub fn is_sending(&self, seat: SeatId) -> bool {
        self.seat(seat.0).is_sending
    }

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

    /// Drops what can be dropped of a region that is unmapped, changed or not. Returns how many chunks are still
    /// under way; when they have ended, ask again.
    pub fn forget(&mut self, region: u32) -> usize {
        self.parked.retain(|fault| fault.key.region != region);
        self.ghosts.forget(region);
        let mut under_way = 0;
        for index in 0..self.seats.len() as u32 {
            let seat = *self.seat(index);
            if seat.key.region != region || self.chunks.get(&seat.key) != Some(&index) {
                continue;
            }
            match seat.state {
                State::Resident => {
                    self.drop_resident(index);
                    continue;
                }
                State::Aside => self.leave_aside(index),
                State::Dirty => self.dirty.remove(&mut self.links, index),
                State::Fetching | State::Saving | State::Returned => {
                    under_way += 1;
                    continue;
                }
                State::Absent => continue,
            }
            self.go(index, Event::Evict);
            self.set_free(index);
        }
        // Other shards may need what is free now.
        while let Some(index) = self.pop_free() {
            self.abolish(index);
        }
        under_way
    }

    /// The seats from this number on that hold chunks of a region that are in a range.
    pub(in super::super) fn in_range(
        &self,
        region: u32,
        chunks: &Range<u32>,
        from: u32,
    ) -> impl Iterator<Item = (SeatId, ChunkKey, State)> {
        let seats = self.seats.iter().enumerate().skip(from as usize);
        let seats = seats.map(|(at, seat)| (SeatId(at as u32), seat.key, seat.state));
        let chunks = chunks.clone();
        seats.filter(move |(_, key, state)| {
            key.region == region && chunks.contains(&key.index) && *state != State::Absent
        })
    }

    /// Whether the bytes of a chunk can be given up now: it is here, and neither pinned, held nor on its way.
    pub fn may_be_discarded(&self, seat: SeatId) -> bool {
        let Seat { state, is_pinned, holds, .. } = *self.seat(seat.0);
        matches!(state, State::Resident | State::Aside | State::Dirty) && !is_pinned && holds == 0
    }

    /// A chunk is zero here and at the server. If it was in its region, its pages there were thrown away.
    pub fn discard(&mut self, seat: SeatId) {
        match self.seat(seat.0).state {
            State::Resident => self.leave_region(seat.0),
            State::Aside => self.leave_aside(seat.0),
            _ => self.dirty.remove(&mut self.links, seat.0),
        }
        self.go(seat.0, Event::Discard);
        self.set_free(seat.0);
    }

    /// Frames whose memory is to be given back to the system.
    pub fn discarded(&mut self) -> Option<SeatFrame> {
        let frame = self.discarded.pop()?;
        self.spare_frames.push(frame);
        Some(frame)
    }

    /// Takes a chunk out of the region, and its seat from it.
    pub(super) fn drop_resident(&mut self, index: u32) {
        self.leave_region(index);
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
    use super::super::{Access, Answer, ArrivalStep, SizeClass};
    use super::*;

    const CLASS: SizeClass = SizeClass(12);

    fn key(region: u32, index: u32) -> ChunkKey {
        ChunkKey::new(region, index)
    }

    /// A shard with room for two chunks, both of which are in the region.
    fn full() -> Shard {
        let mut shard = Shard::new(2 << 12);
        for region in 0..2 {
            let Answer::Fetch(seat) = shard.fault(key(region, 0), CLASS, Access::Write) else {
                panic!("there is room");
            };
            assert_eq!(shard.filled(seat, false), ArrivalStep::MoveIn);
            shard.arrived(seat);
        }
        shard
    }

    #[test]
    fn what_is_held_stays_until_all_let_go() {
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
    fn only_what_no_server_will_take_is_given_up() {
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
