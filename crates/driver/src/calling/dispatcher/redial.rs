//! How a caller finds an agent again that it has lost.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use outboard_link::{Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::Time;

use super::{Dispatcher, SiteEnd};

/// How soon a lost agent is looked for, at first and at last.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Connects to an agent, if it is there. Takes as long as it takes.
pub type Dial = Arc<dyn Fn() -> Option<Box<dyn SiteEnd>> + Send + Sync>;

/// Where the search for the agent stands.
#[derive(Default)]
enum Search {
    /// It is there, as far as anybody knows.
    #[default]
    Over,
    /// It is looked for then.
    Due(Time),
    /// A thread looks for it, so that no call waits for that.
    Dialling(Receiver<Option<Box<dyn SiteEnd>>>),
}

/// Looks for an agent.
pub(super) struct Redial {
    dial: Option<Dial>,
    search: Search,
    pause: Duration,
}

impl Redial {
    pub(super) fn new(dial: Option<Dial>) -> Self {
        Self { dial, search: Search::Over, pause: PAUSE_MIN }
    }

    /// Goes on with the search. Returns an agent that was found.
    fn go_on(&mut self, now: Time) -> Option<Box<dyn SiteEnd>> {
        let dial = self.dial.as_ref()?;
        match &self.search {
            Search::Over => self.search = Search::Due(now + self.pause),
            Search::Due(due) if now < *due => {}
            Search::Due(_) => {
                let ((sender, found), dial) = (channel(), Arc::clone(dial));
                let look = move || {
                    // Nobody listens where the caller has gone meanwhile.
                    let _ = sender.send(dial());
                };
                // Without a thread it is as if nobody were there.
                let _ = std::thread::Builder::new().name("outboard-redial".to_owned()).spawn(look);
                self.search = Search::Dialling(found);
            }
            Search::Dialling(found) => match found.try_recv() {
                Ok(Some(agent)) => {
                    (self.search, self.pause) = (Search::Over, PAUSE_MIN);
                    return Some(agent);
                }
                Ok(None) | Err(TryRecvError::Disconnected) => {
                    self.pause = (self.pause * 2).min(PAUSE_MAX);
                    self.search = Search::Due(now + self.pause);
                }
                Err(TryRecvError::Empty) => {}
            },
        }
        None
    }
}

impl<L: Link + RemoteMemory + Send> Dispatcher<L> {
    /// From now on an agent that is not there is looked for again and again.
    pub fn redial(&mut self, dial: Dial) {
        self.redial = Redial::new(Some(dial));
    }

    /// Looks for the agent if it is gone and nobody waits for it any more.
    #[inline]
    pub(super) fn look_for_agent(&mut self) {
        if self.agent.as_ref().is_none_or(|agent| agent.lost().is_some()) {
            self.look_for_lost_agent();
        }
    }

    #[cold]
    fn look_for_lost_agent(&mut self) {
        if self.watch.under_way(Site::Agent) > 0 {
            return;
        }
        if let Some(agent) = self.redial.go_on(self.now) {
            self.agent = Some(agent);
            self.functions.iter_mut().for_each(|function| function.set_at(Site::Agent, false));
            self.watch.forgive();
            self.reminder.is_needed = self.may_use_agent();
        }
    }
}
