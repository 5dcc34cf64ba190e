//! Frames and memory between processes on fabrics: InfiniBand, RoCE, EFA, Slingshot and whatever else libfabric
//! speaks to.
//!
//! libfabric is loaded when the first link is made; a process without it works, without this link. Two sides find each other by a TCP
//! port and exchange the names of their endpoints there. From then on frames travel as messages between the endpoints,
//! in the protocol that all links over a stream speak. The socket stays: the kernel closes it when a process dies,
//! which not every fabric would tell, and it wakes a side whose provider cannot.
//!
//! Messages are received into places that belong to the link and are copied from there, because memory that is moved
//! between address spaces must never be registered. No message is sent for which the other side has no place.
//!
//! Every link has an endpoint and a domain of its own, so that links in different threads do not wait for each other
//! and what goes wrong on one concerns no other.

mod accept;
mod access;
mod arriving;
#[doc(hidden)]
pub mod bare;
mod bytes;
mod choice;
mod completions;
mod config;
mod credits;
mod departed;
mod dial;
mod endpoint;
mod landing;
#[doc(hidden)]
pub mod layout;
mod leftovers;
mod library;
mod long_slots;
mod meeting;
mod object;
mod offer;
mod open;
mod pool;
mod preface;
#[doc(hidden)]
pub mod raw;
mod sending;
mod setbacks;
mod side;
mod stream;
mod sys;
#[cfg(test)]
mod tests;
mod withdrawal;

use std::net::SocketAddr;

pub use accept::{OfiAccepting, OfiListener};
pub use bytes::OfiBytes;
pub use choice::{Choice, FabricError, choose, version};
pub use config::{OfiConfig, Progress};
pub use dial::{OfiDialing, connect};
pub use library::{FabricFault, LoadError};

/// A link over libfabric.
pub type OfiLink = crate::stream::StreamLink<OfiBytes>;

fn shown(address: SocketAddr) -> String {
    crate::Address::Ofi(address).to_string()
}
