//! Calls as futures, under executors made by hand.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use outboard::{AsyncCaller, CallError, CallFuture, CallerOptions, FunctionHandle, FunctionOptions, Rights};

use crate::world::{COUNT, Daemons, caller_with, image, memory};
use outboard_e2e::PATIENCE;

/// Counts how often it was woken, and wakes a thread that sleeps.
struct Bell {
    rings: AtomicUsize,
    sleeper: std::thread::Thread,
}

impl Bell {
    fn new() -> Arc<Self> {
        Arc::new(Self { rings: AtomicUsize::new(0), sleeper: std::thread::current() })
    }

    fn rings(&self) -> usize {
        self.rings.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        self.sleeper.unpark();
    }
}

/// The simplest executor: polls when it is woken, and does `idle` before it sleeps.
fn block_on<F: Future>(future: F, mut idle: impl FnMut()) -> F::Output {
    let (bell, mut future, until) = (Bell::new(), pin!(future), Instant::now() + PATIENCE);
    let waker = Waker::from(Arc::clone(&bell));
    loop {
        let before = bell.rings();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while bell.rings() == before {
            assert!(Instant::now() < until, "nobody wakes it");
            idle();
            if bell.rings() == before {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

/// Makes so many calls at once, and returns what they gave.
fn all(caller: &AsyncCaller, count: FunctionHandle, calls: usize) -> impl Future<Output = Vec<u64>> {
    let begun = (0..calls).map(|_| Box::pin(caller.call(count, &1u64.to_le_bytes())));
    let mut begun: Vec<Option<Pin<Box<CallFuture>>>> = begun.map(Some).collect();
    let mut values = Vec::new();
    std::future::poll_fn(move |context| {
        for place in &mut begun {
            if let Some(call) = place
                && let Poll::Ready(result) = call.as_mut().poll(context)
            {
                values.push(result.unwrap().value);
                *place = None;
            }
        }
        if values.len() < calls { Poll::Pending } else { Poll::Ready(std::mem::take(&mut values)) }
    })
}

fn scene(daemons: &Daemons, over_tcp: bool) -> (AsyncCaller, FunctionHandle) {
    let address = if over_tcp { daemons.tcp() } else { daemons.shm() };
    let region = memory(&address).reserve_shared(4096, &format!("counted over {address}")).unwrap();
    let caller = caller_with(&address, CallerOptions { under_way_max: 16, ..CallerOptions::default() });
    let caller = caller.into_async();
    let options = FunctionOptions::default().with_region(&region, Rights::ALL);
    let count = caller.register(&image(COUNT), options).unwrap();
    (caller, count)
}

/// They all ran, each once.
fn check(mut values: Vec<u64>, from: u64) {
    values.sort_unstable();
    assert_eq!(values, (from..from + values.len() as u64).collect::<Vec<u64>>());
}

#[test]
fn futures_need_nothing_but_an_executor() {
    let daemons = Daemons::start();
    for over_tcp in [false, true] {
        let (caller, count) = scene(&daemons, over_tcp);
        assert_eq!(block_on(caller.call(count, &1u64.to_le_bytes()), || {}).unwrap().value, 0);
        // More than can be under way.
        check(block_on(all(&caller, count, 100), || {}), 1);
        let error = block_on(caller.call_keyed(count, b"any", &[0; 20_000]), || {}).unwrap_err();
        assert!(matches!(error, CallError::ArgumentsTooLong { .. }), "{error}");
    }
}

#[test]
fn an_executor_can_drive_calls_when_it_has_nothing_else_to_do() {
    let daemons = Daemons::start();
    for over_tcp in [false, true] {
        let (caller, count) = scene(&daemons, over_tcp);
        let driver = caller.driver();
        let mut driven = 0;
        check(block_on(all(&caller, count, 100), || driven += driver.drive(PATIENCE)), 0);
        assert!(driven > 0, "futures ask for nothing while there is a driver");
    }
}

#[test]
fn with_a_driver_as_a_task_calls_are_woken_when_they_have_ended() {
    let daemons = Daemons::start();
    let (caller, count) = scene(&daemons, false);
    let (mut driver, mut calls) = (pin!(caller.driver()), pin!(all(&caller, count, 10)));
    let (for_driver, for_calls) = (Bell::new(), Bell::new());
    let (driver_waker, calls_waker) =
        (Waker::from(Arc::clone(&for_driver)), Waker::from(Arc::clone(&for_calls)));
    let (mut polled, mut seen, until) = (0, usize::MAX, Instant::now() + PATIENCE);
    let values = loop {
        assert!(Instant::now() < until, "it ends");
        if for_calls.rings() != seen {
            seen = for_calls.rings();
            polled += 1;
            if let Poll::Ready(values) = calls.as_mut().poll(&mut Context::from_waker(&calls_waker)) {
                break values;
            }
        }
        assert!(driver.as_mut().poll(&mut Context::from_waker(&driver_waker)).is_pending());
    };
    check(values, 0);
    assert!((2..=11).contains(&polled), "{polled} polls for 10 calls");
    let idle = for_driver.rings();
    assert!(driver.as_mut().poll(&mut Context::from_waker(&driver_waker)).is_pending());
    assert_eq!(for_driver.rings(), idle, "with nothing to do it waits to be woken");
    assert!(pin!(caller.call(count, &[0; 8])).poll(&mut Context::from_waker(&calls_waker)).is_pending());
    assert!(for_driver.rings() > idle);
}

#[test]
fn answers_that_nobody_waits_for_and_answers_that_do_not_come() {
    let daemons = Daemons::start();
    let (caller, count) = scene(&daemons, false);
    let mut forgotten = Box::pin(caller.call(count, &1u64.to_le_bytes()));
    let waker = Waker::from(Bell::new());
    while forgotten.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
        forgotten = Box::pin(caller.call(count, &1u64.to_le_bytes()));
    }
    drop(forgotten);
    assert!(
        block_on(caller.call(count, &1u64.to_le_bytes()), || {}).unwrap().value > 0,
        "it ran all the same"
    );
    daemons.stop();
    let late = caller.call(count, &1u64.to_le_bytes()).with_deadline(Duration::from_millis(20));
    let error = block_on(late, || {}).unwrap_err();
    assert!(matches!(error, CallError::Deadline { may_have_run: true, .. }), "{error}");
}

/// More calls than there is room for, begun while nobody answers; the bell is that of the one without room.
fn crowd(
    daemons: &Daemons,
    caller: &AsyncCaller,
    count: FunctionHandle,
) -> (Vec<Pin<Box<CallFuture>>>, Arc<Bell>) {
    daemons.stop();
    let bell = Bell::new();
    let (waker, others) = (Waker::from(Arc::clone(&bell)), Waker::from(Bell::new()));
    let mut calls: Vec<_> = (0..17).map(|_| Box::pin(caller.call(count, &1u64.to_le_bytes()))).collect();
    for (number, call) in calls.iter_mut().enumerate() {
        let waker = if number < 16 { &others } else { &waker };
        assert!(call.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    (calls, bell)
}

#[test]
fn calls_are_polled_and_dropped_while_another_thread_drives() {
    let daemons = Daemons::start();
    for over_tcp in [false, true] {
        let (caller, count) = scene(&daemons, over_tcp);
        let driver = caller.driver();
        let (mut calls, bell) = crowd(&daemons, &caller, count);
        let (rings, until) = (bell.rings(), Instant::now() + PATIENCE);
        let driven = std::thread::scope(|threads| {
            let driving = threads.spawn(|| driver.drive(PATIENCE));
            while bell.rings() == rings {
                assert!(Instant::now() < until, "whoever waits for room is asked to try again");
                std::thread::park_timeout(Duration::from_millis(1));
            }
            // From here on it waits for answers, which come only when this thread has got through.
            for call in &mut calls {
                assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            }
            drop(calls.pop());
            daemons.go_on();
            driving.join().unwrap()
        });
        assert!(driven > 0, "it waited for {PATIENCE:?} and nobody could do anything");
    }
}

/// Drops a call when it is woken or dropped, as executors do with tasks that nobody waits for.
#[derive(Default)]
struct Owner(Mutex<Option<Pin<Box<CallFuture>>>>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {
        let owned = self.0.lock().unwrap().take();
        drop(owned);
    }
}

impl Owner {
    /// The waker of a call that it owns, and that has begun.
    fn of(caller: &AsyncCaller, count: FunctionHandle) -> Waker {
        let owner = Arc::new(Self::default());
        let waker = Waker::from(Arc::clone(&owner));
        let mut call = Box::pin(caller.call(count, &1u64.to_le_bytes()));
        assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *owner.0.lock().unwrap() = Some(call);
        waker
    }
}

/// Does it in a thread of its own, and fails if it does not return.
fn returns(what: &str, work: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn wakers_may_drop_calls() {
    let daemons = Daemons::start();
    let (caller, count) = scene(&daemons, false);
    let driver = caller.driver();
    returns("woken as the call ends", {
        let _woken = Owner::of(&caller, count);
        move || while driver.drive(PATIENCE) == 0 {}
    });
    let driver = caller.driver();
    daemons.stop();
    returns("woken as the driver goes", {
        let _woken = Owner::of(&caller, count);
        move || drop(driver)
    });
    let mut driver = Box::pin(caller.driver());
    let mut call = Box::pin(caller.call(count, &1u64.to_le_bytes()));
    returns("dropped as another takes its place, and as the call goes", move || {
        for waker in [Owner::of(&caller, count), Owner::of(&caller, count)] {
            let polled = call.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
        }
        drop(call);
        let waker = Owner::of(&caller, count);
        assert!(driver.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    });
}

#[test]
fn an_idle_driver_keeps_one_waker() {
    let daemons = Daemons::start();
    let (caller, _) = scene(&daemons, false);
    let mut drivers = [Box::pin(caller.driver()), Box::pin(caller.driver())];
    let bell = Bell::new();
    for _ in 0..100 {
        for driver in &mut drivers {
            let waker = Waker::from(Arc::clone(&bell));
            assert!(driver.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    assert_eq!(Arc::strong_count(&bell), 3, "one for each, and this one");
    drop(drivers);
    assert_eq!(Arc::strong_count(&bell), 1);
}
