//! Moves frames between two processes, and reads, writes and updates memory that the peer has registered.
//!
//! It does not decide what a frame means or where work runs: the rooms above do. Every link obeys the same
//! two traits, [`Link`] for frames and [`RemoteMemory`] for one-sided access, says in its [`Capabilities`]
//! what it can do, and passes one conformance suite.
//!
//! | link | between | one-sided access |
//! |---|---|---|
//! | [`shm`] | two processes of one node | through mapped memory, without the owner's help |
//! | [`tcp`] | plain machines | served by the owner's link |
//! | [`ofi`] | machines on a fabric that libfabric speaks to | served by the owner's link |
//! | [`loopback`] | two ends in one thread, with seeded faults | served by the owner's link |
//! | [`shaped`] | any of these, slowed down | as the link beneath |

mod address;
mod capabilities;
mod counters;
mod departed;
mod error;
mod export;
mod hello;
mod identity;
mod link;
pub mod loopback;
pub mod memory;
pub mod ofi;
mod patience;
pub mod quantity;
mod remote;
pub mod ring;
pub mod shaped;
pub mod shm;
mod shortage;
mod stream;
mod sync;
pub mod tcp;
mod wait;

pub use address::{Address, AddressError};
pub use capabilities::{AtomicDomain, Capabilities, OneSided};
pub use counters::Counters;
pub use error::{ConnectError, LinkError, Loss, SendError, Violation};
pub use export::{Export, Exports};
pub use identity::{Identity, Peer};
pub use link::{Disposition, Frame, Link, WaitOn};
pub use remote::{AccessError, AtOnce, Completion, OpenRegion, Outcome, RemoteMemory, Token};
pub use shortage::why_failed;
pub use wait::{Clock, Waiter, sleep_on};
