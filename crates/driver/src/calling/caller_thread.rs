//! The thread of a caller, as its dispatcher needs it.

use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use outboard_calling::{
    Begin, CallBeginError, Dispatcher, FunctionImage, FunctionNeeds, Leaving, PreparedFunction, Refused,
    RegisterError, SiteLink, TellEnded,
};
use outboard_link::{Clock, Link, LinkError, RemoteMemory, WaitOn, sleep_on};
use outboard_wire::calling::{CallerId, FunctionName, RegisterRefusal};
use outboard_wire::{Incarnation, Time};

use crate::{AgentFinder, Tend};

/// A caller that waits for another thread sleeps no longer than this at a time: nothing else wakes it when that is done.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How a caller finds its agent again, and what it opens there.
struct Agent<A> {
    finder: AgentFinder<A>,
    /// Calls of this caller of functions on the regions of that server.
    opens: (CallerId, Incarnation),
    /// Whether the log has been told of the present loss.
    is_loss_told: bool,
}

/// Runs a [`Dispatcher`] in the thread that calls: gives it the time, sleeps on its links, and has other threads do what
/// would keep calls waiting.
pub struct CallerThread<L, A> {
    /// The dispatcher that it runs.
    pub dispatcher: Dispatcher<L, A>,
    clock: Clock,
    /// A function that a thread looks at.
    preparing: Option<(FunctionName, Receiver<Result<PreparedFunction, Refused>>)>,
    agent: Option<Agent<A>>,
}

impl<L: Link + RemoteMemory, A: Link + Send + 'static> CallerThread<L, A> {
    /// Runs this from now on.
    pub fn new(dispatcher: Dispatcher<L, A>) -> Self {
        Self { dispatcher, clock: Clock::start(), preparing: None, agent: None }
    }

    /// From now on an agent that is not there is looked for again and again, and opened for calls of this caller of functions on
    /// the regions of that server.
    pub fn redial(&mut self, finder: AgentFinder<A>, opens: (CallerId, Incarnation)) {
        self.agent = Some(Agent { finder, opens, is_loss_told: false });
    }

    /// The clock that it goes by.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// As [`Dispatcher::begin`].
    #[inline]
    pub fn begin(&mut self, begin: &Begin<'_>) -> Result<u64, CallBeginError> {
        let clock = self.clock;
        self.dispatcher.begin(begin, || clock.now())
    }

    /// As [`Dispatcher::turn`].
    pub fn turn(&mut self, tell: &mut TellEnded<'_>) -> bool {
        let clock = self.clock;
        let moved = self.dispatcher.turn(&|| clock.now(), tell);
        self.look_after_threads();
        moved
    }

    /// As [`Dispatcher::turn_and_keep`].
    pub fn turn_and_keep(&mut self) -> bool {
        let clock = self.clock;
        let moved = self.dispatcher.turn_and_keep(&|| clock.now());
        self.look_after_threads();
        moved
    }

    /// As [`Dispatcher::take_over`].
    // A caller that cannot begin it gets it back, and it is large only then.
    #[allow(clippy::result_large_err)]
    pub fn take_over(
        &mut self,
        leaving: Leaving,
        until: Option<Time>,
    ) -> Result<(), (Leaving, CallBeginError)> {
        self.dispatcher.take_over(leaving, until, self.clock.now())
    }

    /// Makes a function known to the sites where its calls may run, and waits until it can be called. Returns its number.
    /// Calls that end meanwhile are kept.
    pub fn register(
        &mut self,
        image: &FunctionImage,
        wanted: FunctionNeeds,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        self.dispatcher.begin_to_register(image, wanted, patience, self.clock.now())?;
        loop {
            if let Some(registered) = self.dispatcher.go_on_registering(self.clock.now()) {
                return registered;
            }
            // The awaited thing may be among those that have moved.
            if !self.turn_and_keep()
                && let Err(error) = self.sleep(self.clock.now() + patience)
            {
                return Err(self.dispatcher.stop_registering(error));
            }
        }
    }

    /// Sleeps until there may be something to do, at most until `limit`.
    pub fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        let limit = limit.since(self.clock.now());
        let Some(span) = self.prepare_to_sleep(limit) else { return Ok(()) };
        sleep_on(self.wait_on(), span)
            .map_err(|loss| LinkError { peer: self.dispatcher.link().peer().clone(), loss })
    }

    /// For how long to sleep on what [`wait_on`](Self::wait_on) names, at most for `limit`. Nothing, if there is something to
    /// do now.
    pub fn prepare_to_sleep(&mut self, limit: Duration) -> Option<Duration> {
        let limit = if self.preparing.is_some() { limit.min(LOOK_AGAIN) } else { limit };
        self.dispatcher.prepare_to_sleep(self.clock.now(), limit)
    }

    /// The descriptors and bells to sleep on.
    pub fn wait_on(&self) -> impl Iterator<Item = WaitOn<'_>> {
        self.dispatcher.wait_on()
    }

    /// Starts the threads that the dispatcher has work for, and hands it what they have done.
    #[inline]
    fn look_after_threads(&mut self) {
        if self.preparing.is_some() || self.dispatcher.unprepared().is_some() {
            self.prepare();
        }
        if self.agent.is_some() && self.dispatcher.wants_agent() {
            self.look_for_agent();
        }
    }

    #[cold]
    fn prepare(&mut self) {
        let Some((name, result)) = &self.preparing else {
            // Without a thread for it, it is tried again in the next turn.
            self.preparing = self.dispatcher.unprepared().and_then(look_at);
            return;
        };
        let prepared = match result.try_recv() {
            Ok(prepared) => prepared,
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => {
                let detail = "the thread that looked at the function has ended".to_owned();
                Err((RegisterRefusal::BadCode, detail))
            }
        };
        self.dispatcher.prepared(*name, prepared);
        self.preparing = None;
    }

    #[cold]
    fn look_for_agent(&mut self) {
        let Self { dispatcher, agent: Some(agent), .. } = self else { return };
        if let Some(lost) = dispatcher.agent_lost().filter(|_| !agent.is_loss_told) {
            tracing::warn!("calling without the agent until it is there again: {lost}");
            agent.is_loss_told = true;
        }
        let Some(found) = agent.finder.dial() else { return };
        let (caller, server) = agent.opens;
        dispatcher.dialled(found.map(|link| {
            agent.is_loss_told = false;
            tracing::info!("calling by the {} again", link.peer());
            SiteLink::new(link, caller, server)
        }));
    }
}

impl<L: Link + RemoteMemory + Send + 'static, A: Link + Send + 'static> Tend for CallerThread<L, A> {
    fn tend(&mut self) -> Option<Duration> {
        self.turn_and_keep();
        // A lost link has nothing to show, and no time for it.
        let due = self.dispatcher.link().next_deadline().filter(|_| self.dispatcher.lost().is_none())?;
        Some(due.since(self.clock.now()))
    }
}

/// Has a thread look at a function, where one is to be had.
fn look_at(image: &FunctionImage) -> Option<(FunctionName, Receiver<Result<PreparedFunction, Refused>>)> {
    let (tell, result) = channel();
    let (image, name) = (image.clone(), image.name());
    let look = move || {
        // The caller may have gone.
        let _ = tell.send(PreparedFunction::prepare(&image));
    };
    std::thread::Builder::new().name("prepare".to_owned()).spawn(look).ok()?;
    Some((name, result))
}
