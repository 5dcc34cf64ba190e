//! How a caller finds an agent again that it has lost.
//!
//! Dialling takes as long as it takes: when [`Dispatcher::wants_agent`] says so, the owner of the dispatcher dials in
//! whichever thread it has for that, and hands what it found to [`Dispatcher::dialled`].

use std::time::Duration;

use outboard_contract::{Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::Time;

use super::{Dispatcher, SiteLink};

/// How soon a lost agent is looked for, at first and at last.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Where the search for the agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// It is there, as far as anybody knows.
    Over,
    /// It is looked for then.
    Due(Time),
    /// It is being dialled.
    Dialling,
}

/// When the agent is dialled.
#[derive(Debug)]
pub(super) struct Redial {
    search: Search,
    pause: Duration,
}

impl Default for Redial {
    fn default() -> Self {
        Self { search: Search::Over, pause: PAUSE_MIN }
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
        self.redial.search = match self.redial.search {
            Search::Over => Search::Due(self.now + self.redial.pause),
            Search::Due(due) if self.now >= due => Search::Dialling,
            search => search,
        };
    }

    /// Whether an agent is to be dialled.
    #[inline]
    pub fn wants_agent(&self) -> bool {
        self.redial.search == Search::Dialling
    }

    /// What came of dialling the agent that was [wanted](Self::wants_agent).
    pub fn dialled(&mut self, found: Option<SiteLink<A>>) {
        let Some(agent) = found else {
            self.redial.pause = (self.redial.pause * 2).min(PAUSE_MAX);
            self.redial.search = Search::Due(self.now + self.redial.pause);
            return;
        };
        self.redial = Redial::default();
        self.agent = Some(agent);
        self.functions.iter_mut().for_each(|function| function.set_at(Site::Agent, false));
        self.watch.forgive();
        self.reminder.is_needed = self.may_use_agent();
    }
}
