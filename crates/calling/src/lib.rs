//! Functions that travel, and the calls of them: both ends of the protocol, and which site runs which call.
//!
//! One folder for each place where the code runs:
//!
//! | folder | place |
//! |---|---|
//! | `caller` | the application: a [`Dispatcher`] sends calls to sites and hears their answers |
//! | `site` | wherever calls run: a [`CallingDesk`] takes them in for each worker, an [`Executor`] runs them by turns on regions that a [`Site`] reaches, a [`FunctionTable`] has what the site has learned of functions |
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
    Ashore, Begin, CallBeginError, CallEnded, CallOutcome, Calls, Crossing, Dispatcher, DispatcherConfig,
    Fault, Leaving, NoRoom, NotCrossed, Placement, RegisterError, Shore, SiteLink, SiteReport, Wanted,
};
pub use helpers::helpers;
pub use image::{FunctionImage, ImageError};
pub use server::{CallerNumber, Controller, ControllerConfig, SharedController, Shift, SlotDesk};
pub use site::{
    Access, Answered, Binding, CallWindow, CallingDesk, Client, DeskCounts, Done, Executor, ExecutorConfig,
    FindRegion, Found, Function, FunctionTable, Job, Lane, LaneWork, Meter, MeterReader, NoReply, Operation,
    Outcome, Recalled, Refused, RemoteAccess, RemoteRegion, RemoteSite, SharedCalls, Site, Submitted,
    TableLimits, Ticket, WINDOW, is_of_call,
};
pub use slots::{SLOTS, SlotTable, slot_of};
