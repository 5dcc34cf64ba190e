//! How a caller finds an agent again that it has lost, and how the agent learns again what it has forgotten: it may have lost its
//! memory server for a while, or found it late.
//!
//! Dialling takes as long as it takes: when [`Dispatcher::wants_agent`] says so, the owner of the dispatcher has
//! another thread dial, and hands what that found to [`Dispatcher::dialled`].

use std::time::Duration;

use outboard_contract::{Link, LinkError, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::calling::{CODE, REGISTER, RegisterVerdict};
use outboard_wire::{FrameHead, Time};

use super::register::Known;
use super::{Dispatcher, SiteLink};

/// How soon an agent is told of a function again, at first and at last.
const TELL_PAUSE_MIN: Duration = Duration::from_millis(2);
const TELL_PAUSE_MAX: Duration = Duration::from_secs(1);

/// When the agent is told next.
#[derive(Debug)]
pub(super) struct Reminder {
    /// There is a function that the agent does not know, and no call waits for the agent to know it.
    pub(super) is_needed: bool,
    due: Time,
    pause: Duration,
}

impl Default for Reminder {
    fn default() -> Self {
        Self { is_needed: false, due: Time::ZERO, pause: TELL_PAUSE_MIN }
    }
}

impl Reminder {
    /// When the agent is to be told.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.is_needed.then_some(self.due)
    }
}

impl<L: Link + RemoteMemory, A: Link> Dispatcher<L, A> {
    /// Looks for the agent if it is gone and no call waits for it any more.
    #[inline]
    pub(super) fn look_for_agent(&mut self) {
        if self.agent.as_ref().is_none_or(|agent| agent.lost.is_some()) {
            self.look_for_lost_agent();
        }
    }

    #[cold]
    fn look_for_lost_agent(&mut self) {
        if self.watch.under_way(Site::Agent) > 0 {
            return;
        }
        self.redial.on_absent(self.now);
    }

    /// Whether an agent is to be dialled.
    #[inline]
    pub fn wants_agent(&self) -> bool {
        self.redial.is_dialling()
    }

    /// Why the agent is gone, if there was one and it is.
    pub fn agent_lost(&self) -> Option<&LinkError> {
        self.agent.as_ref()?.lost.as_ref()
    }

    /// What came of dialling the agent that was [wanted](Self::wants_agent).
    pub fn dialled(&mut self, found: Option<SiteLink<A>>) {
        let Some(agent) = found else { return self.redial.failed(self.now) };
        self.redial.found();
        self.redial.answered();
        self.agent = Some(agent);
        self.functions.iter_mut().for_each(|function| function.set_at(Site::Agent, false));
        self.watch.forgive();
        self.reminder.is_needed = self.may_use_agent();
    }

    /// Tells the agent of a function that it does not know, if it is time for that, and does not wait for it. Returns whether the
    /// agent has learned one.
    #[inline]
    pub(super) fn remind_agent(&mut self) -> bool {
        // A registration hears the answers itself.
        let is_due = self.reminder.is_needed && self.reminder.due <= self.now && self.registration.is_none();
        is_due && self.remind()
    }

    #[cold]
    fn remind(&mut self) -> bool {
        let Self { agent, functions, reminder, now, .. } = self;
        let Some(agent) = agent.as_mut().filter(|agent| agent.lost.is_none()) else { return false };
        let mut has_learned = false;
        while let Some(answer) = agent.heard.registered.pop_front() {
            let Some(known) = functions.get_mut(answer.handle as usize) else { continue };
            match answer.verdict {
                RegisterVerdict::Ready => {
                    known.set_at(Site::Agent, true);
                    reminder.pause = TELL_PAUSE_MIN;
                    has_learned = true;
                }
                RegisterVerdict::NeedsCode => ship(agent, known),
                RegisterVerdict::Preparing | RegisterVerdict::Refused(_) => {}
            }
        }
        let forgotten = functions.iter().position(Known::is_missed_by_agent);
        reminder.is_needed = forgotten.is_some();
        if let Some(handle) = forgotten {
            let question = functions[handle].question(handle as u32);
            // Without room for it there is another time.
            let _ = agent.send(FrameHead::new(REGISTER), &question);
        }
        reminder.due = *now + reminder.pause;
        reminder.pause = (reminder.pause * 2).min(TELL_PAUSE_MAX);
        has_learned
    }
}

/// Sends a function's code, as far as there is room: what is missing shows the next time.
fn ship<A: Link>(agent: &mut SiteLink<A>, known: &Known) {
    let (payload_max, mut next) = (agent.link.capabilities().max_payload, Some(0));
    while let Some(offset) = next {
        let (part, then) = known.part(offset, payload_max);
        if agent.send(FrameHead::new(CODE), &part).is_err() {
            return;
        }
        next = then;
    }
}
