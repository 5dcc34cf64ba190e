//! The library that an application links: memory of other machines behind plain pointers, small messages in bundles, functions
//! that run beside the data, and remote writes that choose their path.
//!
//! Everything begins with [`Outboard`], which is a memory server and perhaps an agent, or with [`Job`], which is a rank among
//! others, and has the same services and messages. `outboard up` starts the daemons that both find by themselves.
//!
//! | you want | you open | by |
//! |---|---|---|
//! | arrays larger than memory, behind plain pointers | [`FarMemory`], with a [`FarVec`] or [`FarSlice`] for each array | `far()` |
//! | regions of a memory server, read, written and updated by calls | [`Memory`], with a [`FarRegion`] for each | `memory()` |
//! | small messages between the ranks of a job | [`Messenger`]; with [`Requests`] and their replies, or as a [`Conveyor`] | `messenger()` |
//! | functions that run where a region is | [`Caller`], or [`AsyncCaller`] for calls that are futures | `caller()` |
//! | remote writes that choose between two paths | [`Writer`], with a [`WriteTarget`] for each region | `writer()` |
//!
//! A process by itself, at the memory server of `outboard up`:
//!
//! ```
//! # let _server = outboard_nearby::start();
//! use outboard::Outboard;
//!
//! let outboard = Outboard::find()?;
//! let far = outboard.far()?;
//! let mut counts = far.allocate::<u64>(1 << 20)?;
//! counts[4096] += 1; // a page fault, a fetch, and then memory like any other
//! let mut memory = outboard.memory()?; // beside each other, as many as wanted
//! let table = memory.reserve(1 << 20, None)?;
//! memory.write(&table, 0, b"far away")?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The ranks of a job, which `outboard run -n 4 -- program`, `mpirun`, `srun` or `torchrun` starts; a program that none of them has
//! started is a job of one rank. [`Job::with`] makes jobs of ranks that a program starts by itself.
//!
//! ```
//! let job = outboard::Job::join()?;
//! let mut messenger = job.messenger()?;
//! messenger.send(0, b"to rank 0, from each")?;
//! let mut count = 0;
//! messenger.quiesce(0, |_, _from, _message| count += 1)?; // until everything is handled everywhere
//! assert_eq!(count, if job.rank() == 0 { job.size() } else { 0 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What holds everywhere
//!
//! - `service()` goes by the settings, `service_with(options)` by options, which begin with their defaults and are changed by
//!   `with_…`. What cannot be opened says why and what to start, as an [`OpenError`], [`FarError`] or [`MessengerError`].
//! - Every call ends within its deadline. One that has passed is a `Deadline` of the call's error, and the service goes on; a peer
//!   that is gone is `Lost`.
//! - What lies in far memory or travels in messages is [`Plain`]: nothing but its bytes.
//! - `explain()` tells people what was chosen and why, in lines.
//! - A region without a name ends with the process that reserved it. One with a name stays until it is freed.
//!
//! It starts no processes, but for the agent of a node in jobs of `mpirun` and the like (`job.start_agent`).

#![deny(unsafe_code)]

mod caller;
mod client;
mod error;
#[allow(unsafe_code)]
mod far;
mod job;
mod memory;
#[allow(unsafe_code)]
mod messenger;
mod outboard;
mod writer;

pub use self::outboard::Outboard;
pub use caller::{
    AsyncCaller, CallCompletion, CallDriver, CallError, CallFuture, CallId, CallPlacement, CallReply,
    CallServer, CallSite, Caller, CallerOptions, FunctionHandle, FunctionImage, FunctionName,
    FunctionOptions, ImageError, NoRoomBecause, RegisterError, RegisterRefusal, SiteReport, TrapReason,
};
pub use client::AskError;
#[doc(hidden)]
pub use client::Client;
pub use error::OpenError;
pub use far::{
    Advice, BufferError, BufferNode, BufferSize, BufferTooLarge, CacheMode, Children, FarAllocator, FarArena,
    FarBox, FarError, FarHome, FarLoss, FarLosses, FarMapping, FarMemory, FarOptions, FarSlice, FarStats,
    FarVec, FaultAnswer, LossReason, LostObject, Mover, OnLoss, PageProtection, PagingError, Path, Plain,
    RegionOptions, RegionTraffic, Traffic,
};
#[doc(hidden)]
pub use far::{ArenaPlace, ArrayPlace};
pub use job::{Job, JobError, JobOptions};
pub use memory::{FarRegion, Memory, RegionEntry};
pub use messenger::{
    Bundle, BundleBuilder, BundleId, Conveyor, Messages, Messenger, MessengerError, MessengerOptions,
    MessengerStats, Requests, SendError, Values, ValuesIter,
};
#[doc(inline)]
pub use outboard_limits::{LimitSetter, MemoryLimit};
#[doc(inline)]
pub use outboard_link::{AccessError, Address, AddressError, LinkError, Peer};
#[doc(inline)]
pub use outboard_settings::MessagesPlacement;
#[doc(hidden)]
pub use outboard_settings::{Configuration, Inputs, Settings};
#[doc(inline)]
pub use outboard_wire::control::{ControlFailure, RegionSharing};
#[doc(inline)]
pub use outboard_wire::{DecodeError, Rights};
pub use writer::{
    Hint, WriteCompletion, WriteError, WriteId, WriteOptions, WritePath, WriteTarget, Writer, WriterOptions,
    WriterStats,
};
/// What makes a type [`Plain`]: the crate that this library has its traits and their derives from.
pub use zerocopy;
