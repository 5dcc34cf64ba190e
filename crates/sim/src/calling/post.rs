//! A memory server as a caller reaches it, and the dispatcher of the product for one of its lives.

use std::time::Duration;

use outboard_calling::{CallBeginError, CrossingServer, Dispatcher, Leaving, NoRoom};
use outboard_driver::LinkId;
use outboard_wire::calling::CallerId;
use outboard_wire::{Incarnation, Time};

use super::functions::Name;
use super::port::Port;

/// How long a site may take to register a function.
const REGISTER_PATIENCE: Duration = Duration::from_millis(40);
/// A dispatcher for one life of a memory server.
pub(super) struct Session {
    pub(super) dispatcher: Dispatcher<Port, Port>,
    /// By which name sites know the caller.
    pub(super) caller: CallerId,
    pub(super) server: Port,
    pub(super) incarnation: Incarnation,
    pub(super) agent: Option<Port>,
    /// The numbers of the functions, as far as they were registered.
    pub(super) handles: Vec<u32>,
    pub(super) is_registering: bool,
    /// The latest table of slots.
    pub(super) epoch: u64,
}

/// A memory server as this caller reaches it.
#[derive(Default)]
pub(super) struct Post {
    pub(super) now: Time,
    pub(super) session: Option<Session>,
    pub(super) server: Option<LinkId>,
    pub(super) agent: Option<LinkId>,
    /// A link to the agent that no dispatcher has had.
    pub(super) unused_agent: Option<Port>,
    /// Frames of the agent for a former session are not for the next.
    pub(super) leaves_agent: bool,
}

impl CrossingServer for Post {
    fn now(&self) -> Time {
        self.now
    }

    fn next_leaving(&mut self) -> Option<Leaving> {
        self.session.as_mut()?.dispatcher.next_leaving()
    }

    fn take_over(&mut self, leaving: Leaving, until: Option<Time>) -> Result<(), (Leaving, CallBeginError)> {
        match &mut self.session {
            Some(session) => session.dispatcher.take_over(leaving, until, self.now),
            None => Err((leaving, CallBeginError::Full(NoRoom::Site))),
        }
    }

    fn server_given_up(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.dispatcher.server_given_up())
    }
}

impl Session {
    pub(super) fn is_ready(&self) -> bool {
        self.handles.len() == Name::ALL.len()
    }

    /// Goes on with making functions known, one after the other. One that could not be is tried again.
    pub(super) fn register(&mut self, now: Time) -> bool {
        let Some(name) = Name::ALL.get(self.handles.len()) else { return false };
        if !self.is_registering {
            let begun =
                self.dispatcher.begin_to_register(name.image(), name.wanted(), REGISTER_PATIENCE, now);
            self.is_registering = begun.is_ok();
        }
        match self.dispatcher.go_on_registering(now) {
            None => false,
            Some(registered) => {
                self.is_registering = false;
                self.handles.extend(registered.ok());
                true
            }
        }
    }
}
