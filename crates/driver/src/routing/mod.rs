//! Fire-and-forget messages in a rank's own thread: bundles lie in memory that other ranks of the node can read, and
//! only word of them travels.

mod buffers;
mod carrier;
mod peer;
mod pool;
mod receiving;
mod sending;
mod service;

pub use buffers::{Buffers, BuffersError};
pub use peer::Departed;
pub use service::{Arrived, Carried, RankConfig, RankService};
