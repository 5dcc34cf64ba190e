//! The application's pager: which chunks are here, which go, which must be saved first.
//!
//! Chunks live in *seats*: parts of a pool, each as large as its chunk. A chunk that the application uses is
//! *resident*: its pages have been moved from the seat into the region. A chunk that seems no longer needed is
//! moved out, back into its seat, and stands *aside*: touched again, it is moved in without asking any peer;
//! otherwise its seat is taken for another chunk. Userfaultfd shows no reference bits, so this is how use is
//! learnt: being moved aside and back costs a short fault.
//!
//! A [`Shard`] holds the state of a share of all chunks and is used by one thread at a time. It moves no bytes: its
//! caller does what the answers say and reports back.

mod answer;
mod chunk;
mod debts;
mod division;
mod ghosts;
mod holds;
mod lists;
mod need;
mod pool;
mod replacement;
mod room;
mod shard;
mod state;
#[cfg(test)]
mod tests;

pub use answer::{Answer, ArrivalStep, Counts};
pub use chunk::{Access, ChunkKey, SeatFrame, SeatId, SizeClass};
pub use pool::{Pool, SEATS_MIN};
pub use shard::Shard;
pub use state::{Event, State, TRANSITIONS, edge};
