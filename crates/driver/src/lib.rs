//! Event loops and system calls: runs state machines over links, in threads, on the real clock.
//!
//! It does not know what a frame means: that is a [`Service`]'s business. A [`FrontDesk`] accepts and dials;
//! [`Worker`]s own the links once they are open, each link in one thread for its whole life.

#![deny(unsafe_code)]

mod allocator;
pub mod calling;
mod connection;
mod desk;
mod dials;
mod easing;
mod links;
mod listener;
mod mailbox;
pub mod paging;
mod pending;
mod poller;
mod pulse;
mod reserve;
mod roster;
pub mod routing;
mod signals;
mod visitors;
mod worker;
pub mod writing;

pub use allocator::give_memory_back;
pub use connection::{AgentFinder, Connection, InUse, Over, Tend, Tended};
pub use desk::{FrontDesk, FrontDeskConfig};
pub use dials::Dial;
pub use listener::Listener;
pub use mailbox::Mailbox;
pub use outboard_contract::{LinkId, LinkOrigin, Outbox, Service};
pub use pulse::Pulse;
pub use signals::{Signals, raise_descriptor_limit};
pub use worker::{Worker, WorkerConfig, WorkerHandle};
