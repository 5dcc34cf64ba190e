//! The memory server's half: copies home what writers unload.

mod drainer;
mod draining;

pub use drainer::{Arrival, Drainer, Malformed};
pub use draining::{DrainingWorker, Presented, Sessions, Unloaded};
