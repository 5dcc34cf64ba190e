//! The answers, counts and settings of a [`Shard`](super::Shard).

use super::chunk::SeatId;
use super::state::TRANSITIONS;

/// The step to take about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the region: wake the threads that wait.
    Here,
    /// It is on its way: the threads that wait are woken when it arrives.
    Joined,
    /// It is in its seat: move it in and say [`Shard::rescued`](super::Shard::rescued).
    Rescue(SeatId),
    /// Fill its seat, then say [`Shard::filled`](super::Shard::filled); or with zeros, if it is known to be zero, then say
    /// [`Shard::blanked`](super::Shard::blanked).
    Fetch(SeatId),
    /// All seats are in the region: move out [`Shard::oldest`](super::Shard::oldest), say so, and ask again.
    MakeRoom,
    /// Every seat is on its way from or to a server. It comes again by [`Shard::unpark`](super::Shard::unpark).
    Parked,
}

/// The step to take with bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalStep {
    /// Move them in and say [`Shard::arrived`](super::Shard::arrived).
    MoveIn,
    /// Leave them in the seat; nothing else to say.
    Stay,
}

/// The counts of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults that found their chunk in the region already.
    pub here: u64,
    /// Faults on chunks under way.
    pub joined: u64,
    /// Faults on chunks in their seats.
    pub rescued: u64,
    /// Faults on absent chunks that were asked for.
    pub fetched: u64,
    /// How many of these asked for one page of their chunk.
    pub pages: u64,
    /// Chunks asked for before they were needed.
    pub ahead: u64,
    /// Absent chunks that were known to be zero, and not asked for.
    pub blank: u64,
    /// Seats taken from one chunk for another.
    pub evicted: u64,
    /// Chunks sent to the server.
    pub saved: u64,
    /// Faults that found all seats under way.
    pub parked: u64,
    /// How often each way of [`TRANSITIONS`] was gone.
    pub edges: [u64; TRANSITIONS.len()],
}
