//! Remote writes that choose their path, all three sides of them.
//! Links are given as traits and time as an argument: no sockets, no clocks, no threads.
//!
//! | folder | here | its owner |
//! |---|---|---|
//! | `writer`: the application | [`Initiator`] with its [`Writer`]: which path each write takes, and in which order | `driver::writing` |
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
pub use server::{Arrival, Drainer, DrainingWorker, Malformed, Presented, Sessions, Unloaded};
pub use writer::{
    AtOnce, BeginError, Begun, BegunAtOnce, Completed, Ended, Fault, Hint, Initiator, Lesson, Nonsense,
    NotYet, Path, Policy, PolicyConfig, PolicyExplanation, ReadyBatch, Span, Stranded, Write, WriteId,
    Writer, WriterConfig, WriterCounts,
};
