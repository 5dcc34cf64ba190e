//! Remote writes that choose their path, all three sides of them.
//! Links are given as traits and time as an argument: no sockets, no clocks, no threads.
//!
//! | folder | here | its owner |
//! |---|---|---|
//! | `writer`: the application | [`Initiator`] with its [`WriteSequencer`]: which path each write takes, and in which order | `driver::writing` |
//! | `agent` | [`Relay`]: passes on what is unloaded | `agent` |
//! | `server`: the memory server | [`DrainingWorker`] with a [`Drainer`] for each writer: copies home what was unloaded | `agent` |
//!
//! What travels between them is in [`outboard_wire::writing`].

#![forbid(unsafe_code)]

mod agent;
mod server;
mod writer;

pub use agent::{Relay, RelayCounts};
pub use outboard_steering::{Explanation, Preference};
pub use server::{DrainedEntry, Drainer, DrainingWorker, Malformed, Presented, Sessions, Unloaded};
pub use writer::{
    BeginError, Begun, BegunAtOnce, Completed, EndedWrite, Hint, ImmediateWrite, Initiator, Lesson, Nonsense,
    NotYet, Policy, PolicyConfig, PolicyExplanation, ReadyBatch, Stranded, Write, WriteFault, WriteId,
    WritePath, WriteSequencer, WriteSpan, WriterConfig, WriterStats,
};
