//! Decides by which path each remote write goes, keeps the paths in order, and drains what was unloaded.
//! State machines only: no I/O, no clocks, and no memory but the staging ring.
//!
//! A [`Writer`] belongs to the initiator, a [`Drainer`] to the target. What travels between them is in
//! [`outboard_wire::writing`].

#![forbid(unsafe_code)]

mod config;
mod drainer;
mod path;
mod policy;
mod span;
mod staging;
mod writer;

pub use config::WriterConfig;
pub use drainer::{Arrival, Drainer, Entries, Malformed};
pub use outboard_steering::{Explanation, Preference};
pub use path::{Hint, Path};
pub use policy::{Lesson, Policy, PolicyConfig, PolicyExplanation};
pub use span::Span;
pub use writer::{
    AtOnce, Begun, BegunAtOnce, Ended, Fault, Nonsense, NotYet, ReadyBatch, Stranded, Write, WriteId, Writer,
    WriterCounts,
};
