//! The library that an application links: finds its job, its agent and its memory server, and talks to them.
//!
//! It starts no processes, but for the agent of a node in jobs of `mpirun` and the like (`job.start_agent`);
//! `outboard run` does. Everything here blocks the calling thread for a bounded time.
//!
//! ```no_run
//! let job = outboard::Job::join()?;
//! println!("rank {} of {}", job.rank(), job.size());
//! # Ok::<(), outboard::JobError>(())
//! ```

#![deny(unsafe_code)]

mod any_link;
mod caller;
mod client;
#[allow(unsafe_code)]
mod far;
mod find;
mod job;
mod memory;
#[allow(unsafe_code)]
mod messenger;
mod writer;

pub use caller::{
    AsyncCaller, CallCompletion, CallDriver, CallError, CallFuture, CallId, CallPlacement, CallReply,
    CallServer, CallSite, Caller, CallerError, CallerOptions, FunctionHandle, FunctionImage, FunctionName,
    FunctionOptions, ImageError, NoRoomBecause, RegisterError, RegisterRefusal, SiteReport, TrapReason,
};
pub use client::{AskError, Client};
pub use far::{
    Advice, Buffer, BufferError, BufferTooLarge, CacheMode, FarError, FarLoss, FarLosses, FarMapping,
    FarMemory, FarOptions, FarSlice, FarStats, FarVec, LossReason, LostObject, Mover, OnLoss, Path, Plain,
    RegionOptions, RegionTraffic, Traffic,
};
pub use find::FindError;
pub use job::{Job, JobError};
pub use memory::{FarRegion, Memory};
pub use messenger::{
    Bundle, BundleBuilder, BundleId, Conveyor, Messages, Messenger, MessengerError, MessengerOptions,
    MessengerStats, Requests, SendError, Values,
};
pub use outboard_limits::{LimitSetter, MemoryLimit};
pub use outboard_link::{Address, LinkError, Peer};
pub use outboard_settings::{Configuration, Inputs, Placement, Settings};
pub use outboard_wire::Rights;
pub use writer::{
    Hint, WriteCompletion, WriteExplanation, WriteId, WriteOptions, WritePath, WriteTarget, Writer,
    WriterError, WriterOptions,
};
