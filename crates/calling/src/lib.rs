//! Functions that travel, and the calls of them: both ends of the protocol, and which site runs which call.
//!
//! A caller has a [`Dispatcher`], which sends calls to sites and hears their answers. A site has a [`CallingDesk`] for each
//! worker: in a [`ServerDesk`] for a memory server's own regions, in an [`AgentDesk`] for regions that an agent reaches by
//! [`RemoteAccess`]. Below these, a [`FunctionImage`] is a function as it travels; a [`FunctionTable`] is what a site has
//! learned of functions; an [`Executor`] holds the calls that wait at a site and runs them by turns, on regions that a
//! [`Site`] reaches for it. A [`Controller`] at the memory server decides which slots of calls run at which site.
//!
//! It opens no link, reads no clock and starts no thread. What takes long is left to the owner behind a small interface:
//! `driver` has threads look at functions ([`LaneWork`], [`Dispatcher::unprepared`]) and dial a lost agent
//! ([`Dispatcher::wants_agent`]), sleeps on the caller's links, and gives the time and random numbers that functions ask
//! for ([`Ambient`]).

#![forbid(unsafe_code)]

mod agent;
mod ambient;
mod caller;
mod controller;
mod desk;
mod dispatcher;
mod executor;
mod helpers;
mod image;
mod meter;
mod remote;
mod server;
mod shared;
mod slots;
mod table;
mod turns;
mod window;

pub use agent::AgentDesk;
pub use ambient::Ambient;
pub use caller::{Calls, Fault};
pub use controller::{CallerNumber, Controller, ControllerConfig, Shift};
pub use desk::{CallingDesk, DeskCounts, FindRegion};
pub use dispatcher::{
    Begin, CallBeginError, CallEnded, CallOutcome, Dispatcher, DispatcherConfig, Leaving, NoRoom, Placement,
    RegisterError, SiteLink, SiteReport, Wanted,
};
pub use executor::{
    Access, Answered, Binding, Client, Executor, ExecutorConfig, NoReply, Operation, Outcome, Recalled, Site,
    Submitted, Ticket,
};
pub use helpers::helpers;
pub use image::{FunctionImage, ImageError};
pub use meter::{Meter, MeterReader};
pub use remote::{RemoteAccess, RemoteRegion, RemoteSite, is_of_call};
pub use server::{ServerDesk, SharedController};
pub use shared::{LaneWork, SharedCalls};
pub use slots::{SLOTS, SlotTable, slot_of};
pub use table::{Done, Found, Function, FunctionTable, Job, Lane, Refused, TableLimits};
pub use window::{CallWindow, WINDOW};
