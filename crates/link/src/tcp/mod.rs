//! Frames and memory between processes on plain networks.
//!
//! One connection carries everything: frames, one-sided access served by the owner's link, heartbeats. The
//! protocol is that of every link over a stream; this folder holds the sockets.
//!
//! A listener binds to loopback addresses unless its configuration allows others: nothing here authenticates or
//! encrypts, and whoever reaches the port and knows a region's key can use the region.
//!
//! A peer that is dead, stopped or unreachable is an error once it has been silent for the deadline; heartbeats
//! tell it from one that has nothing to say. The kernel's own `TCP_USER_TIMEOUT` stays off: it would also end a
//! link whose peer is well but takes no frames for a while, which is ordinary back-pressure.

mod bytes;
mod config;
mod listener;
#[cfg(test)]
mod tests;

pub use bytes::TcpBytes;
pub use config::Config;
pub use listener::{Accepting, Dialing, TcpListener, connect};

/// A link over a TCP connection.
pub type TcpLink = crate::stream::StreamLink<TcpBytes>;
