//! How the ranks of a job find each other: the host of the meeting answers all of them when the last has come.
//!
//! It starts no processes; `launch` does. An agent hosts meetings for its node; without one, the launcher or the
//! job's first rank does.

#![forbid(unsafe_code)]

mod gathering;
mod host;

pub use gathering::{Addressed, Rendezvous};
pub use host::{Expected, HostError, MeetingHost};
