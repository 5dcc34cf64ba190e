//! The thread of a caller, as its dispatcher needs it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use outboard_calling::{
    Begin, CallBeginError, CallOutcome, Dispatcher, Function, FunctionImage, Leaving, Refused, RegisterError,
    SiteLink, Wanted,
};
use outboard_link::{Clock, Link, LinkError, RemoteMemory, WaitOn, sleep_on};
use outboard_wire::Time;
use outboard_wire::calling::{FunctionName, RegisterRefusal};

/// A caller that waits for another thread sleeps no longer than this at a time: nothing else wakes it when that is done.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Connects to an agent, if it is there. Takes as long as it takes.
pub type Dial<A> = Arc<dyn Fn() -> Option<SiteLink<A>> + Send + Sync>;

/// Runs a [`Dispatcher`] in the thread that calls: gives it the time, sleeps on its links, and has other threads do what
/// would keep calls waiting.
pub struct CallerThread<L, A> {
    /// What it runs.
    pub dispatcher: Dispatcher<L, A>,
    clock: Clock,
    /// A function that a thread looks at.
    preparing: Option<(FunctionName, Receiver<Result<Function, Refused>>)>,
    dial: Option<Dial<A>>,
    dialling: Option<Receiver<Option<SiteLink<A>>>>,
}

impl<L: Link + RemoteMemory, A: Link + Send + 'static> CallerThread<L, A> {
    /// Runs this from now on.
    pub fn new(dispatcher: Dispatcher<L, A>) -> Self {
        Self { dispatcher, clock: Clock::start(), preparing: None, dial: None, dialling: None }
    }

    /// From now on an agent that is not there is looked for again and again.
    pub fn redial(&mut self, dial: Dial<A>) {
        self.dial = Some(dial);
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
    pub fn turn(&mut self, tell: impl FnMut(u64, CallOutcome<'_>)) -> bool {
        let clock = self.clock;
        let moved = self.dispatcher.turn(|| clock.now(), tell);
        self.look_after_threads();
        moved
    }

    /// As [`Dispatcher::turn_and_keep`].
    pub fn turn_and_keep(&mut self) -> bool {
        let clock = self.clock;
        let moved = self.dispatcher.turn_and_keep(|| clock.now());
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
        wanted: Wanted,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        self.dispatcher.begin_to_register(image, wanted, patience, self.clock.now())?;
        loop {
            if let Some(registered) = self.dispatcher.go_on_registering(self.clock.now()) {
                return registered;
            }
            // What has moved may be what is awaited.
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

    /// What there is to sleep on.
    pub fn wait_on(&self) -> impl Iterator<Item = WaitOn<'_>> {
        self.dispatcher.wait_on()
    }

    /// Starts the threads that the dispatcher has work for, and hands it what they have done.
    #[inline]
    fn look_after_threads(&mut self) {
        if self.preparing.is_some() || self.dispatcher.unprepared().is_some() {
            self.prepare();
        }
        if self.dialling.is_some() || (self.dial.is_some() && self.dispatcher.wants_agent()) {
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
        let Some(found) = &self.dialling else {
            self.dialling = self.dial.as_ref().map(start_dialling);
            return;
        };
        match found.try_recv() {
            Err(TryRecvError::Empty) => return,
            found => self.dispatcher.dialled(found.ok().flatten()),
        }
        self.dialling = None;
    }
}

/// Has a thread look at a function, where one is to be had.
fn look_at(image: &FunctionImage) -> Option<(FunctionName, Receiver<Result<Function, Refused>>)> {
    let (tell, result) = channel();
    let (image, name) = (image.clone(), image.name());
    let look = move || {
        // The caller may have gone.
        let _ = tell.send(Function::prepare(&image));
    };
    std::thread::Builder::new().name("prepare".to_owned()).spawn(look).ok()?;
    Some((name, result))
}

/// Has a thread dial an agent. Where no thread is to be had, it is as if the agent were not there.
fn start_dialling<A: Send + 'static>(dial: &Dial<A>) -> Receiver<Option<SiteLink<A>>> {
    let ((tell, found), dial) = (channel(), Arc::clone(dial));
    let look = move || {
        // The caller may have gone.
        let _ = tell.send(dial());
    };
    let _ = std::thread::Builder::new().name("outboard-redial".to_owned()).spawn(look);
    found
}
