//! The debts that a flush waits for.
//!
//! A thread that flushes wants the server to have all that was written before. Chunks that may be newer here are owed to it
//! from then on, whatever becomes of them meanwhile: one that is moved out, touched and moved in again before it was
//! sent is still owed.

use super::chunk::{ChunkKey, SeatId};
use super::shard::Shard;
use super::state::State;

/// Whether the server waits for a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Debt {
    /// It has not been sent since it became owed.
    is_owed: bool,
    /// It is being sent.
    is_on_its_way: bool,
}

impl Debt {
    /// It is being sent as it is now.
    pub(super) fn begin(&mut self) {
        self.is_on_its_way |= std::mem::take(&mut self.is_owed);
    }

    /// The server has what was sent.
    pub(super) fn end(&mut self) {
        self.is_on_its_way = false;
    }

    /// The server may not have what was sent.
    pub(super) fn fail(&mut self) {
        self.is_owed |= std::mem::take(&mut self.is_on_its_way);
    }

    /// It is the same as at the server.
    pub(super) fn cancel(&mut self) {
        self.is_owed = false;
    }

    fn is_open(self) -> bool {
        self.is_owed || self.is_on_its_way
    }
}

impl Shard {
    /// Chunks that may be newer here than at the server are owed to it from now on.
    pub fn owe(&mut self, region: u32) {
        for seat in self.seats.iter_mut().filter(|seat| seat.key.region == region) {
            match seat.state {
                State::Resident | State::Returned | State::Dirty => seat.debt.is_owed = true,
                // All that was written is on its way already.
                State::Saving => seat.debt.is_on_its_way = true,
                State::Absent | State::Fetching | State::Aside => {}
            }
        }
    }

    /// How many chunks of a region are owed, sent or not.
    pub fn owed(&self, region: u32) -> usize {
        let is_owed = |seat: &&super::shard::Seat| {
            seat.key.region == region && seat.state != State::Absent && seat.debt.is_open()
        };
        self.seats.iter().filter(is_owed).count()
    }

    /// The chunks that are owed and in the region, from where they have to be moved out, pinned or not.
    pub fn owed_here(&self, region: u32) -> impl Iterator<Item = ChunkKey> {
        let seats = self.seats.iter().filter(move |seat| seat.key.region == region);
        seats.filter(|seat| seat.state == State::Resident && seat.debt.is_owed).map(|seat| seat.key)
    }

    /// The seat of a chunk that is owed and in the region.
    pub fn owed_seat(&self, key: ChunkKey) -> Option<SeatId> {
        let index = *self.chunks.get(&key)?;
        (self.may_leave(index) && self.seat(index).debt.is_owed).then_some(SeatId(index))
    }
}
