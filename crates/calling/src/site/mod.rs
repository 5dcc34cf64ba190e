//! A place where calls run: what arrives there, whose turn it is, and what a run may do. Memory server, agent and caller have
//! the same one, and differ in how they find and reach regions ([`FindRegion`], [`SiteHost`]).

mod desk;
mod executor;
mod meter;
mod remote;
mod shared;
mod table;
mod turns;

pub use desk::{CallingDesk, DeskCounts, FindRegion};
pub(crate) use desk::{Regions, find_all};
pub use executor::{
    AccessProgress, Answered, Binding, CallWindow, ExecutionOutcome, Executor, ExecutorClient,
    ExecutorConfig, NoReply, Recalled, SiteHost, SiteOperation, Submitted, Ticket, WINDOW,
};
pub use meter::{MeterReader, SiteMeter};
pub use remote::{RemoteAccess, RemoteRegion, RemoteSite, is_of_call};
pub use shared::{LaneWork, SharedCalls};
pub use table::{
    Done, Found, FunctionLength, FunctionTable, PreparationJob, PreparedFunction, Refused, TableLimits,
};
