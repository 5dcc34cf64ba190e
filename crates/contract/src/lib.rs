//! The contract of a link: the traits [`Link`] for frames and [`RemoteMemory`] for one-sided access, and what they speak of.
//!
//! It opens no link: `crates/link` does, and obeys these traits. The protocols of the services are written against them, and
//! those that have many links are a [`Service`], so that the same code runs over sockets and in a simulator. Nothing here
//! has a socket, a clock or a thread; the only thing that is asked of the operating system is memory.

mod capabilities;
mod counters;
mod distrust;
mod error;
mod link;
mod link_id;
pub mod memory;
mod outbox;
mod peer;
mod redial;
mod remote;
mod service;

pub use capabilities::{AtomicDomain, Capabilities, OneSided};
pub use counters::Counters;
pub use distrust::Distrust;
pub use error::{FrameSendError, LinkError, Loss, Violation};
pub use link::{Backlog, Disposition, Frame, Link, WaitOn};
pub use link_id::{LinkId, LinkOrigin};
pub use outboard_limits::show_size;
pub use outbox::Outbox;
pub use peer::Peer;
pub use redial::Redial;
pub use remote::{AccessError, AccessOutcome, Completion, ImmediateAccess, OpenRegion, RemoteMemory, Token};
pub use service::Service;
