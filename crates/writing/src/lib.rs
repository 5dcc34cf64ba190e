//! Remote writes that choose their path, all three sides of them.
//! Links are given as traits and time as an argument: no sockets, no clocks, no threads.
//!
//! | side | here | its owner |
//! |---|---|---|
//! | application | [`Initiator`] with its [`Writer`]: which path each write takes, and in which order | `driver::writing` |
//! | agent | [`Relay`]: passes on what is unloaded | `agent` |
//! | memory server | [`DrainingWorker`] with a [`Drainer`] for each writer: copies home what was unloaded | `agent` |
//!
//! What travels between them is in [`outboard_wire::writing`].

#![forbid(unsafe_code)]

mod config;
mod drainer;
mod draining;
mod initiator;
mod path;
mod policy;
mod relay;
mod span;
mod staging;
mod writer;

pub use config::WriterConfig;
pub use drainer::{Arrival, Drainer, Malformed};
pub use draining::{DrainingWorker, Presented, Sessions, Unloaded};
pub use initiator::{BeginError, Completed, Initiator};
pub use outboard_steering::{Explanation, Preference};
pub use path::{Hint, Path};
pub use policy::{Lesson, Policy, PolicyConfig, PolicyExplanation};
pub use relay::{Relay, RelayCounts};
pub use span::Span;
pub use writer::{
    AtOnce, Begun, BegunAtOnce, Ended, Fault, Nonsense, NotYet, ReadyBatch, Stranded, Write, WriteId, Writer,
    WriterCounts,
};
