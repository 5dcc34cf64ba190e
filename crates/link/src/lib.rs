//! Moves frames between two processes, and reads, writes and updates memory that the peer has registered.
//!
//! It does not decide what a frame means or where work runs: the rooms above do. Every link obeys the
//! two traits of `crates/contract`, [`Link`] for frames and [`RemoteMemory`] for one-sided access, says in its
//! [`Capabilities`] what it can do, and passes one conformance suite.
//!
//! | link | between | one-sided access |
//! |---|---|---|
//! | [`shm`] | two processes of one node | through mapped memory, without the owner's help |
//! | [`tcp`] | plain machines | served by the owner's link |
//! | [`ofi`] | machines on a fabric that libfabric speaks to | served by the owner's link |
//! | [`loopback`] | two ends in one thread, with seeded faults | served by the owner's link |
//! | [`shaped`] | any of these, slowed down | as the link beneath |

mod address;
mod allotment;
mod any;
mod asked;
mod connecting;
mod departed;
mod error;
mod export;
mod hello;
mod identity;
pub mod loopback;
pub mod memory;
pub mod ofi;
mod patience;
mod port;
pub mod quantity;
pub mod ring;
pub mod shaped;
pub mod shm;
mod shortage;
mod stream;
mod sync;
pub mod tcp;
mod wait;

pub use address::{Address, AddressError};
pub use any::{AnyDialing, AnyLink, LinkConfigs, connect, dial};
pub use error::ConnectError;
pub use export::{Export, Exports};
pub use identity::Identity;
pub use outboard_contract::{
    AccessError, AccessOutcome, AtomicDomain, Backlog, Capabilities, Completion, Counters, Disposition,
    Frame, FrameSendError, ImmediateAccess, Link, LinkError, Loss, OneSided, OpenRegion, Peer, RemoteMemory,
    Token, Violation, WaitOn,
};
pub use stream::StreamConfig;
pub use wait::{Clock, Waiter, sleep_on};
