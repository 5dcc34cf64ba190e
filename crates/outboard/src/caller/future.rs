//! Calls as futures, for any executor.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use outboard_calling::slot_of;
use outboard_driver::calling::{Begin, CallBeginError};

use super::{
    CallError, CallId, CallReply, Caller, FunctionHandle, FunctionImage, FunctionOptions, RegisterError,
};

/// A [`Caller`] whose calls are futures. Clones are the same caller.
///
/// Nothing here has a thread. A future that is polled does what there is to do for all calls, and asks to be polled again
/// soon: like a thread that spins, in turn with whatever else its executor runs. Where that is too much, have a
/// [`driver`](Self::driver) do it for all of them.
///
/// ```no_run
/// # async fn example(caller: outboard::Caller, image: outboard::FunctionImage) -> Result<(), Box<dyn std::error::Error>> {
/// let caller = caller.into_async();
/// let count = caller.register(&image, outboard::FunctionOptions::default())?;
/// let (one, other) = (caller.call(count, b"one"), caller.call(count, b"other"));
/// println!("{:?} and {:?}", one.await?, other.await?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncCaller {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    caller: Caller,
    /// Calls that are under way, or have ended and were not told.
    calls: HashMap<CallId, State>,
    /// Those who wait for room.
    crowd: Vec<Waker>,
    /// Whoever polls for all, and waits for something to do.
    idle_drivers: Vec<Waker>,
    drivers: usize,
}

enum State {
    Awaited(Option<Waker>),
    Ended(Result<CallReply, CallError>),
}

impl Caller {
    /// The same caller, with calls that are futures.
    pub fn into_async(self) -> AsyncCaller {
        let (calls, crowd, idle_drivers) = (HashMap::new(), Vec::new(), Vec::new());
        AsyncCaller {
            shared: Arc::new(Mutex::new(Shared { caller: self, calls, crowd, idle_drivers, drivers: 0 })),
        }
    }
}

impl Shared {
    /// Tells everybody whose call has ended. Returns how many there were.
    fn turn(&mut self) -> usize {
        let Self { caller, calls, crowd, .. } = self;
        let count = caller.drain(|id, result| {
            let result = result.map(|(value, bytes)| CallReply { value, bytes: bytes.to_vec() });
            // Otherwise nobody wants to know.
            if let Some(state) = calls.get_mut(&id)
                && let State::Awaited(waker) = std::mem::replace(state, State::Ended(result))
            {
                waker.into_iter().for_each(Waker::wake);
            }
        });
        crowd.drain(..).for_each(Waker::wake);
        count
    }
}

impl AsyncCaller {
    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Caller::register`], which waits.
    pub fn register(
        &self,
        image: &FunctionImage,
        options: FunctionOptions,
    ) -> Result<FunctionHandle, RegisterError> {
        self.shared().caller.register(image, options)
    }

    /// Calls a function, when the future is first polled.
    pub fn call(&self, function: FunctionHandle, arguments: &[u8]) -> CallFuture {
        self.later(function, function.slot, arguments)
    }

    /// The same for a key.
    pub fn call_keyed(&self, function: FunctionHandle, key: &[u8], arguments: &[u8]) -> CallFuture {
        self.later(function, slot_of(key), arguments)
    }

    fn later(&self, function: FunctionHandle, slot: u8, arguments: &[u8]) -> CallFuture {
        let (caller, arguments) = (self.clone(), arguments.to_vec());
        CallFuture { caller, function, slot, arguments, patience: None, id: None }
    }

    /// Somebody who does what there is to do for all calls. As long as there is one, futures are polled only when they have
    /// something to say.
    pub fn driver(&self) -> CallDriver {
        self.shared().drivers += 1;
        CallDriver { caller: self.clone() }
    }
}

/// A call that ends some time. Dropping it gives up its answer, not the call.
#[must_use = "nothing is called before it is polled"]
pub struct CallFuture {
    caller: AsyncCaller,
    function: FunctionHandle,
    slot: u8,
    arguments: Vec<u8>,
    patience: Option<Duration>,
    /// Which call, once it has begun.
    id: Option<CallId>,
}

impl CallFuture {
    /// The same call, which ends in an error when there is no answer in so long after it has begun.
    pub fn within(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Begins the call if there is room for it.
    fn begin(&mut self, shared: &mut Shared) -> Result<bool, CallError> {
        let begin = Begin {
            handle: self.function.handle,
            slot: self.slot,
            arguments: &self.arguments,
            patience: self.patience,
        };
        let id = match shared.caller.site.begin(&begin) {
            Ok(number) => CallId(number),
            Err(CallBeginError::Full(_)) => return Ok(false),
            Err(error) => return Err(CallError::at_begin(error)),
        };
        self.id = Some(id);
        shared.calls.insert(id, State::Awaited(None));
        shared.idle_drivers.drain(..).for_each(Waker::wake);
        Ok(true)
    }
}

impl Future for CallFuture {
    type Output = Result<CallReply, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let caller = this.caller.clone();
        let shared = &mut *caller.shared();
        if this.id.is_none() {
            match this.begin(shared) {
                Err(error) => return Poll::Ready(Err(error)),
                Ok(true) => {}
                Ok(false) => {
                    shared.turn();
                    shared.crowd.push(context.waker().clone());
                    shared.idle_drivers.drain(..).for_each(Waker::wake);
                }
            }
        }
        if shared.drivers == 0 {
            shared.turn();
            context.waker().wake_by_ref();
        }
        let Some(id) = this.id else { return Poll::Pending };
        match shared.calls.remove(&id) {
            Some(State::Ended(result)) => Poll::Ready(result),
            Some(State::Awaited(_)) => {
                shared.calls.insert(id, State::Awaited(Some(context.waker().clone())));
                Poll::Pending
            }
            // It has been told.
            None => Poll::Pending,
        }
    }
}

impl Drop for CallFuture {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.caller.shared().calls.remove(&id);
        }
    }
}

/// Does what there is to do for the calls of an [`AsyncCaller`]: as a future, to be spawned as a task of its own, which is
/// polled again and again while calls are under way and never ends; or by hand, for executors that can be told what to do
/// when there is nothing to poll ([`drive`](Self::drive)).
#[must_use = "it does nothing unless it is polled"]
pub struct CallDriver {
    caller: AsyncCaller,
}

impl CallDriver {
    /// Does what there is to do, and wakes those whose calls have ended. Sleeps for `limit` at most if none has. Returns how
    /// many there were.
    pub fn drive(&self, limit: Duration) -> usize {
        let mut shared = self.caller.shared();
        let count = shared.turn();
        if count > 0 || shared.caller.under_way() == 0 {
            return count;
        }
        let until = shared.caller.site.clock().now() + limit;
        shared.caller.rest(until);
        count + shared.turn()
    }
}

impl Future for CallDriver {
    type Output = std::convert::Infallible;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shared = &mut *self.caller.shared();
        shared.turn();
        if shared.caller.under_way() > 0 || !shared.crowd.is_empty() {
            context.waker().wake_by_ref();
        } else {
            shared.idle_drivers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for CallDriver {
    fn drop(&mut self) {
        let mut shared = self.caller.shared();
        shared.drivers -= 1;
        // Whoever waits has to look after itself again.
        let waiting = shared.calls.values_mut().filter_map(|state| match state {
            State::Awaited(waker) => waker.take(),
            State::Ended(_) => None,
        });
        waiting.for_each(Waker::wake);
        shared.crowd.drain(..).for_each(Waker::wake);
    }
}
