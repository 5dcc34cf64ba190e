//! Calls as futures, for any executor.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outboard_calling::{Begin, slot_of};

use super::{
    CallError, CallId, CallReply, CallServer, Caller, FunctionHandle, FunctionImage, FunctionOptions,
    RegisterError,
};

/// The shortest and the longest nap of a thread that drives by hand. Naps grow with how long nothing was heard, so that an answer
/// is found late by a part of what it took.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// A [`Caller`] whose calls are futures. Clones are the same caller.
///
/// Nothing here has a thread. A future that is polled does what there is to do for all calls, and asks to be polled again
/// soon: like a thread that spins, in turn with whatever else its executor runs. Since every poll of every future does that,
/// many calls at once are three to five times slower than with a [`driver`](Self::driver), which does it once for all of
/// them.
///
/// ```
/// # let _server = outboard_nearby::start();
/// use outboard::{FunctionImage, FunctionOptions, Outboard};
///
/// async fn call_twice() -> Result<(), Box<dyn std::error::Error>> {
///     let caller = Outboard::find()?.caller()?.into_async();
///     let image = FunctionImage::from_text("mov r0, r2\nexit", "main")?; // returns how long its argument is
///     let length = caller.register(&image, FunctionOptions::default())?;
///     let (one, other) = (caller.call(length, b"one"), caller.call(length, b"other"));
///     assert_eq!((one.await?.value, other.await?.value), (3, 5));
///     Ok(())
/// }
/// # // The simplest of executors.
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # let mut calls = std::pin::pin!(call_twice());
/// # loop {
/// #     if let std::task::Poll::Ready(result) = calls.as_mut().poll(&mut context) {
/// #         break result?;
/// #     }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AsyncCaller {
    common: Arc<Common>,
}

struct Common {
    /// Held for one turn at most, except to register, and never where wakers are called or dropped: they are others' code,
    /// which may well drop a future of this caller.
    shared: Mutex<Shared>,
    /// For those who nap in [`CallDriver::drive`].
    news: Condvar,
}

struct Shared {
    caller: Caller,
    /// Calls that are under way, or have ended and were not told.
    calls: HashMap<CallId, State>,
    /// Those who wait for room.
    crowd: Vec<Waker>,
    /// The future that polls for all, by number; with a waker if it waits for something to do.
    drivers: BTreeMap<u64, Option<Waker>>,
    /// How many nap.
    napping: usize,
    /// How many calls have begun, and how many have ended.
    begun: u64,
    ended: u64,
    /// The tasks to be woken when the lock is given back.
    due: Vec<Waker>,
    /// Wakers that are not needed any more, to be dropped then.
    spare: Vec<Waker>,
}

enum State {
    Awaited(Option<Waker>),
    Ended(Result<CallReply, CallError>),
}

impl Caller {
    /// This caller, with calls that are futures.
    pub fn into_async(self) -> AsyncCaller {
        let shared = Shared {
            caller: self,
            calls: HashMap::new(),
            crowd: Vec::new(),
            drivers: BTreeMap::new(),
            napping: 0,
            begun: 0,
            ended: 0,
            due: Vec::new(),
            spare: Vec::new(),
        };
        AsyncCaller { common: Arc::new(Common { shared: Mutex::new(shared), news: Condvar::new() }) }
    }
}

impl Shared {
    /// Wakes each task whose call has ended.
    fn turn(&mut self) {
        let Self { caller, calls, crowd, due, .. } = self;
        let count = caller.drain(|id, result| {
            let result = result.map(|(value, bytes)| CallReply { value, bytes: bytes.to_vec() });
            // Otherwise no task wants to know.
            if let Some(state) = calls.get_mut(&id)
                && let State::Awaited(waker) = std::mem::replace(state, State::Ended(result))
            {
                due.extend(waker);
            }
        });
        due.append(crowd);
        self.ended += count as u64;
    }

    fn wake_drivers(&mut self) {
        self.due.extend(self.drivers.values_mut().filter_map(Option::take));
    }

    /// The number of ends so far, for threads that nap until there is another.
    fn news(&self) -> (u64, u64) {
        (self.begun, self.ended)
    }
}

impl Common {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does this with the lock, and then without it what it left to do.
    fn with<R>(&self, work: impl FnOnce(&mut Shared) -> R) -> R {
        let mut shared = self.lock();
        let before = shared.news();
        let result = work(&mut shared);
        let (due, spare) = (std::mem::take(&mut shared.due), std::mem::take(&mut shared.spare));
        let is_heard = shared.napping > 0 && shared.news() != before;
        drop(shared);
        if is_heard {
            self.news.notify_all();
        }
        due.into_iter().for_each(Waker::wake);
        drop(spare);
        result
    }

    /// Sleeps for so long, or until there is other news than that. Returns whether there is.
    fn nap(&self, known: (u64, u64), limit: Duration) -> bool {
        let mut shared = self.lock();
        if shared.news() == known {
            shared.napping += 1;
            let napped = self.news.wait_timeout(shared, limit);
            (shared, _) = napped.unwrap_or_else(PoisonError::into_inner);
            shared.napping -= 1;
        }
        shared.news() != known
    }
}

impl AsyncCaller {
    /// As [`Caller::register`], which waits; meanwhile a task that polls a call of this caller waits as well.
    pub fn register(
        &self,
        image: &FunctionImage,
        options: FunctionOptions,
    ) -> Result<FunctionHandle, RegisterError> {
        self.common.lock().caller.register(image, options)
    }

    /// As [`Caller::register_at`], which waits likewise.
    pub fn register_at(
        &self,
        server: CallServer,
        image: &FunctionImage,
        options: FunctionOptions,
    ) -> Result<FunctionHandle, RegisterError> {
        self.common.lock().caller.register_at(server, image, options)
    }

    /// Calls a function, when the future is first polled.
    pub fn call(&self, function: FunctionHandle, arguments: &[u8]) -> CallFuture {
        self.later(function, function.slot, arguments)
    }

    /// Calls a function for a key.
    pub fn call_keyed(&self, function: FunctionHandle, key: &[u8], arguments: &[u8]) -> CallFuture {
        self.later(function, slot_of(key), arguments)
    }

    fn later(&self, function: FunctionHandle, slot: u8, arguments: &[u8]) -> CallFuture {
        let (caller, arguments) = (self.clone(), arguments.to_vec());
        CallFuture { caller, function, slot, arguments, deadline: None, id: None }
    }

    /// A driver, which does what there is to do for all calls. As long as there is one, futures are polled only when they have
    /// something to say.
    pub fn driver(&self) -> CallDriver {
        let mut shared = self.common.lock();
        let number = shared.drivers.last_key_value().map_or(0, |(last, _)| last + 1);
        shared.drivers.insert(number, None);
        CallDriver { caller: self.clone(), number }
    }
}

/// A call that ends some time. Dropping it gives up its answer, not the call.
#[must_use = "nothing is called before it is polled"]
pub struct CallFuture {
    caller: AsyncCaller,
    function: FunctionHandle,
    slot: u8,
    arguments: Vec<u8>,
    deadline: Option<Duration>,
    /// Which call, once it has begun.
    id: Option<CallId>,
}

impl CallFuture {
    /// Ends the call in an error when there is no answer within `deadline` after it has begun.
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Begins the call if there is room for it.
    fn begin(&mut self, shared: &mut Shared) -> Result<bool, CallError> {
        let begin = Begin {
            handle: self.function.handle,
            slot: self.slot,
            arguments: &self.arguments,
            patience: self.deadline,
        };
        let id = match shared.caller.site.begin(self.function.server, &begin) {
            Ok(number) => CallId(number),
            Err(error) => return CallError::at_begin(error).map(|_| false),
        };
        self.id = Some(id);
        shared.calls.insert(id, State::Awaited(None));
        shared.begun += 1;
        shared.wake_drivers();
        Ok(true)
    }

    fn poll_with(&mut self, shared: &mut Shared, waker: Waker) -> Poll<Result<CallReply, CallError>> {
        if self.id.is_none() {
            match self.begin(shared) {
                Err(error) => {
                    shared.spare.push(waker);
                    return Poll::Ready(Err(error));
                }
                Ok(true) => {}
                Ok(false) => {
                    shared.turn();
                    shared.crowd.push(waker);
                    shared.wake_drivers();
                    return Poll::Pending;
                }
            }
        }
        if shared.drivers.is_empty() {
            shared.turn();
        }
        let state = self.id.and_then(|id| shared.calls.remove_entry(&id));
        let (spare, polled) = match state {
            Some((id, State::Awaited(before))) => {
                shared.calls.insert(id, State::Awaited(Some(waker)));
                (before, Poll::Pending)
            }
            Some((_, State::Ended(result))) => (Some(waker), Poll::Ready(result)),
            // It has been told.
            None => (Some(waker), Poll::Pending),
        };
        shared.spare.extend(spare);
        polled
    }
}

impl Future for CallFuture {
    type Output = Result<CallReply, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (common, waker) = (Arc::clone(&this.caller.common), context.waker().clone());
        let (polled, polls_itself) =
            common.with(|shared| (this.poll_with(shared, waker), shared.drivers.is_empty()));
        if polls_itself && polled.is_pending() {
            context.waker().wake_by_ref();
        }
        polled
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // Its waker is dropped behind the lock.
            let _forgotten = self.caller.common.with(|shared| shared.calls.remove(&id));
        }
    }
}

/// Does what there is to do for the calls of an [`AsyncCaller`]: as a future, to be spawned as a task of its own, which is
/// polled again and again while calls are under way and never ends; or by hand, for executors that can be told what to do
/// when there is nothing to poll ([`drive`](Self::drive)).
///
/// While there is one, futures do nothing by themselves, which makes many calls at once three to five times faster; but it
/// has to be polled or driven, or no call ends.
#[must_use = "it does nothing unless it is polled"]
pub struct CallDriver {
    caller: AsyncCaller,
    number: u64,
}

impl CallDriver {
    /// Does what there is to do, and wakes those whose calls have ended. If none has, and some are under way, waits until
    /// one has, for `deadline` at most. Returns how many have ended meanwhile.
    ///
    /// It waits in naps, of a millisecond at most, during which other threads can poll and drop calls; one that begins ends
    /// a nap.
    pub fn drive(&self, deadline: Duration) -> usize {
        let common = &self.caller.common;
        let (clock, spin, ended_before) =
            common.with(|shared| (shared.caller.site.clock(), shared.caller.site.spin(), shared.ended));
        let (until, mut spun, mut nap) = (clock.now() + deadline, clock.now() + spin, NAPS.0);
        loop {
            let (under_way, known) = common.with(|shared| {
                shared.turn();
                (shared.caller.under_way(), shared.news())
            });
            let (now, count) = (clock.now(), known.1 - ended_before);
            if count > 0 || under_way == 0 || now >= until {
                return count as usize;
            }
            if now < spun {
                std::hint::spin_loop();
            } else if common.nap(known, nap.min(until.since(now))) {
                (spun, nap) = (clock.now() + spin, NAPS.0);
            } else {
                nap = (nap * 2).min(NAPS.1);
            }
        }
    }
}

impl Future for CallDriver {
    type Output = std::convert::Infallible;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let waker = context.waker().clone();
        self.caller.common.with(|shared| {
            shared.turn();
            if shared.caller.under_way() > 0 {
                shared.due.push(waker);
            } else {
                let replaced = shared.drivers.insert(self.number, Some(waker)).flatten();
                shared.spare.extend(replaced);
            }
        });
        Poll::Pending
    }
}

impl Drop for CallDriver {
    fn drop(&mut self) {
        self.caller.common.with(|shared| {
            shared.spare.extend(shared.drivers.remove(&self.number).flatten());
            // A task that waits has to look after itself again.
            let waiting = shared.calls.values_mut().filter_map(|state| match state {
                State::Awaited(waker) => waker.take(),
                State::Ended(_) => None,
            });
            shared.due.extend(waiting);
            shared.due.append(&mut shared.crowd);
        });
    }
}
