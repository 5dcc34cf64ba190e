//! Functions that travel, and the calls of them: both ends of the protocol, and which site runs which call.
//!
//! One folder for each place where the code runs:
//!
//! | folder | place |
//! |---|---|
//! | `caller` | the application: a [`Dispatcher`] sends calls to sites and hears their answers |
//! | `site` | wherever calls run: a [`CallingDesk`] takes them in for each worker, an [`Executor`] runs them by turns on regions that a [`SiteHost`] reaches, a [`FunctionTable`] has what the site has learned of functions |
//! | `agent` | an agent: an [`AgentDesk`] has a desk for each memory server, whose regions it reaches by [`RemoteAccess`] |
//! | `server` | a memory server: a [`SlotDesk`] beside each worker's desk, and one [`Controller`] that decides which slots of calls run at which site |
//!
//! A [`FunctionImage`] is a function as it travels.
//!
//! It opens no link, reads no clock and starts no thread. What takes long is left to the owner behind a small interface:
//! `driver` has threads look at functions ([`LaneWork`], [`Dispatcher::unprepared`]) and dial a lost agent
//! ([`Dispatcher::wants_agent`]), sleeps on the caller's links, and gives the time and random numbers that functions ask
//! for ([`Ambient`]).

#![forbid(unsafe_code)]

mod agent;
mod ambient;
mod caller;
mod helpers;
mod image;
mod server;
mod site;
mod slots;

pub use agent::AgentDesk;
pub use ambient::Ambient;
pub use caller::{
    Begin, CallBeginError, CallEnded, CallFault, CallOutcome, CallPlacement, Calls, Crossing, CrossingError,
    CrossingServer, Dispatcher, DispatcherConfig, FunctionNeeds, Leaving, NoRoom, NotCrossed, RegisterError,
    SiteLink, SiteReport, TellEnded,
};
pub use helpers::helpers;
pub use image::{FunctionImage, ImageError};
pub use server::{CallerNumber, Controller, ControllerConfig, SharedController, Shift, SlotDesk};
pub use site::{
    AccessProgress, Answered, Binding, CallWindow, CallingDesk, DeskCounts, Done, ExecutionOutcome, Executor,
    ExecutorClient, ExecutorConfig, FindRegion, Found, FunctionLength, FunctionTable, LaneWork, MeterReader,
    NoReply, PreparationJob, PreparedFunction, Recalled, Refused, RemoteAccess, RemoteRegion, RemoteSite,
    SharedCalls, SiteHost, SiteMeter, SiteOperation, Submitted, TableLimits, Ticket, WINDOW, is_of_call,
};
pub use slots::{SLOTS, SlotTable, slot_of};
