//! A place where calls run: what arrives there, whose turn it is, and what a run may do. Memory server, agent and caller have
//! the same one, and differ in how they find and reach regions ([`FindRegion`], [`Site`]).

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
    Access, Answered, Binding, CallWindow, Client, Executor, ExecutorConfig, NoReply, Operation, Outcome,
    Recalled, Site, Submitted, Ticket, WINDOW,
};
pub use meter::{Meter, MeterReader};
pub use remote::{RemoteAccess, RemoteRegion, RemoteSite, is_of_call};
pub use shared::{LaneWork, SharedCalls};
pub use table::{Done, Found, Function, FunctionTable, Job, Lane, Refused, TableLimits};
