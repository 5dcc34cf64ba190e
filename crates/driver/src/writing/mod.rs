//! Runs a writer over links: one to the memory server, by which writes are offloaded, and where an agent drains, one to
//! the agent. Whoever writes does it in its own thread; nothing here has one.

mod initiator;
mod regions;
mod relay;

pub use initiator::{BeginError, Completed, Initiator};
pub use relay::Relay;
