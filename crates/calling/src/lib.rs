//! Functions that travel, and the calls of them: what a site knows, whose turn it is, and what a run may do.
//!
//! It moves no bytes and reads no clock. A [`FunctionImage`] is a function as it travels; a [`FunctionTable`] is what a
//! site has learned of functions; an [`Executor`] holds the calls that wait at a site and runs them by turns, on regions
//! that a [`Site`] reaches for it.

#![forbid(unsafe_code)]

mod caller;
mod controller;
mod executor;
mod helpers;
mod image;
mod slots;
mod table;
mod turns;
mod window;

pub use caller::{Calls, Fault};
pub use controller::{CallerNumber, Controller, ControllerConfig, Shift};
pub use executor::{
    Access, Answered, Binding, Client, Executor, ExecutorConfig, NoReply, Operation, Outcome, Recalled, Site,
    Submitted, Ticket,
};
pub use helpers::helpers;
pub use image::{FunctionImage, ImageError};
pub use slots::{SLOTS, SlotTable, slot_of};
pub use table::{Done, Found, Function, FunctionTable, Job, Lane, TableLimits};
pub use window::{CallWindow, WINDOW};
