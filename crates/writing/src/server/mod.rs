//! The memory server's half: copies home what writers unload.

mod drainer;
mod draining;

pub use drainer::{DrainedEntry, Drainer, Malformed};
pub use draining::{DrainingWorker, Presented, Sessions, Unloaded};
