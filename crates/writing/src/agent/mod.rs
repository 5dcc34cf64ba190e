//! The agent's half: passes on what writers unload.

mod relay;

pub use relay::{Relay, RelayCounts};
