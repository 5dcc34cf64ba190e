//! What a [`Shard`](super::Shard) answers, counts and is built with.

use super::chunk::SeatId;
use super::state::TRANSITIONS;

/// What to do about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the region: wake whoever waits.
    Here,
    /// It is on its way: whoever waits is woken when it arrives.
    Joined,
    /// It is in its seat: move it in and say [`Shard::rescued`](super::Shard::rescued).
    Rescue(SeatId),
    /// Fill its seat, then say [`Shard::filled`](super::Shard::filled).
    Fetch(SeatId),
    /// All seats are in the region: move out [`Shard::oldest`](super::Shard::oldest), say so, and ask again.
    MakeRoom,
    /// Every seat is on its way from or to a server. It comes again by [`Shard::unpark`](super::Shard::unpark).
    Parked,
}

/// What to do with bytes that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Move them in and say [`Shard::arrived`](super::Shard::arrived).
    MoveIn,
    /// Leave them in the seat; nothing else to say.
    Stay,
}

/// What a shard has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Faults that found their chunk in the region already.
    pub here: u64,
    /// Faults on chunks under way.
    pub joined: u64,
    /// Faults on chunks in their seats.
    pub rescued: u64,
    /// Faults on absent chunks.
    pub fetched: u64,
    /// Chunks asked for before they were needed.
    pub ahead: u64,
    /// Seats taken from one chunk for another.
    pub evicted: u64,
    /// Chunks sent to the server.
    pub saved: u64,
    /// Faults that found all seats under way.
    pub parked: u64,
    /// How often each way of [`TRANSITIONS`] was gone.
    pub edges: [u64; TRANSITIONS.len()],
}

/// The settings of a shard.
#[derive(Clone, Copy, Debug)]
pub struct ShardConfig {
    /// How many bytes of seats there may be.
    pub budget: usize,
    /// Below this many bytes that can be taken at once, chunks are moved out.
    pub low: usize,
    /// Until there are this many.
    pub high: usize,
}

impl ShardConfig {
    /// Moves out below a sixteenth of the budget, until an eighth can be taken.
    pub const fn with_budget(budget: usize) -> Self {
        Self { budget, low: budget / 16, high: budget / 8 }
    }
}
