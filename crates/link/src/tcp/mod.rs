//! Frames and memory between processes on plain networks.
//!
//! One connection carries everything: frames, one-sided access served by the owner's link, heartbeats. The
//! protocol is that of every link over a stream; this folder holds the sockets.
//!
//! Between machines everything is encrypted, and both sides show a [`Credential`] before the first byte of a link
//! travels. Without one, neither is an address beyond this machine listened on nor connected to, unless the
//! configuration allows it in so many words. Within the machine nothing is encrypted: a process that reaches a loopback port
//! and knows a region's key can use the region.
//!
//! A peer that is dead, stopped or unreachable is an error once it has been silent for the deadline; heartbeats
//! tell it from one that has nothing to say. The kernel's own `TCP_USER_TIMEOUT` stays off: it would also end a
//! link whose peer is well but takes no frames for a while, which is ordinary back-pressure.

mod bytes;
mod config;
mod departed;
mod distrust;
mod listener;
mod records;
mod session;
mod shared_key;
mod socket;
mod steer;
#[cfg(test)]
mod tests;
mod trust;

pub use bytes::TcpBytes;
pub use config::{Protection, TcpConfig};
pub use listener::{TcpAccepting, TcpDialing, TcpListener, connect};
pub use outboard_contract::Distrust;
#[doc(hidden)]
pub use trust::configurations;
pub use trust::{AUTHORITY_FILE, CERTIFICATE_FILE, Credential, Encryption, KEY_FILE, NODE_NAME, TrustError};

/// A link over a TCP connection.
pub type TcpLink = crate::stream::StreamLink<TcpBytes>;
