//! Far memory in tasks of an executor, which is made by hand.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use outboard::{FarError, Path, RegionOptions};
use outboard_e2e::{Daemon, PATIENCE, Place, Random, seed};

use super::{connect, options};

const CHUNK: usize = 4096;
const SEATS: usize = 32;
const WORDS: usize = 60 * CHUNK;

/// Wakes the thread that runs all tasks, and notes which task is meant.
struct Bell {
    thread: Thread,
    task: usize,
    woken: Arc<[AtomicU64]>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.woken[self.task].fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Runs tasks in this thread until all have ended, and polls each only when it was woken.
fn run_all<T>(tasks: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let woken: Arc<[AtomicU64]> = tasks.iter().map(|_| AtomicU64::new(1)).collect();
    let mut open: Vec<_> = tasks.into_iter().enumerate().map(Some).collect();
    let (mut ended, until) = (Vec::new(), Instant::now() + PATIENCE);
    while open.iter().any(Option::is_some) {
        for place in &mut open {
            let Some((task, future)) = place else { continue };
            if woken[*task].swap(0, Ordering::SeqCst) == 0 {
                continue;
            }
            let bell = Bell { thread: thread::current(), task: *task, woken: Arc::clone(&woken) };
            let waker = Waker::from(Arc::new(bell));
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                ended.push(output);
                *place = None;
            }
        }
        assert!(Instant::now() < until, "a task is not woken");
        if woken.iter().all(|times| times.load(Ordering::SeqCst) == 0) && open.iter().any(Option::is_some) {
            thread::park_timeout(PATIENCE);
        }
    }
    ended
}

fn boxed<'a, T>(task: impl Future<Output = T> + Send + 'a) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    Box::pin(task)
}

fn region() -> RegionOptions {
    RegionOptions { chunk: CHUNK, path: Path::Direct, ..Default::default() }
}

#[test]
fn many_tasks_of_one_thread_wait_for_chunks_at_once() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut random = Random::new(seed());
    for address in [daemon.local(), daemon.remote()] {
        let far = connect(&options(address, CHUNK, SEATS * CHUNK));
        let mut array = far.allocate_with::<u64>(WORDS, &region()).unwrap();
        let words: Vec<u64> = (0..WORDS as u64).collect();
        let [all] = run_all(vec![boxed(array.write_async(0, &words, PATIENCE))]).try_into().unwrap();
        all.unwrap();
        // Far more than there is room for, and spans that cross the borders of chunks.
        let spans: Vec<(usize, usize)> = (0..100)
            .map(|_| (random.below(WORDS as u64 - 2000) as usize, 1 + random.below(2000) as usize))
            .collect();
        let array = &array;
        let tasks = spans.iter().map(|(start, len)| {
            boxed(async move {
                let mut found = vec![0; *len];
                array.read_async(*start, &mut found, PATIENCE).await.unwrap();
                assert!(found.iter().copied().eq(*start as u64..(*start + *len) as u64), "{len} at {start}");
            })
        });
        assert_eq!(run_all(tasks.collect()).len(), spans.len());
        // A few chunks stay where they came, so that touching them fetches nothing.
        let some = 1000..1000 + 4 * CHUNK / 8;
        run_all(vec![boxed(array.prefault_async(some.clone(), PATIENCE))]).remove(0).unwrap();
        let mut found = vec![0; some.len()];
        array.try_read(some.start, &mut found, Duration::ZERO).unwrap();
        assert!(found.iter().copied().eq(some.start as u64..some.end as u64));
        // One that is dropped while it waits does no harm.
        let mut unfinished = boxed(array.prefault_async(0..WORDS, PATIENCE));
        assert!(unfinished.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(unfinished);
        let outside = run_all(vec![boxed(array.prefault_async(0..WORDS + 1, PATIENCE))]).remove(0);
        assert!(matches!(outside, Err(FarError::OutOfBounds { .. })), "{outside:?}");
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn tasks_are_told_of_what_does_not_come() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let setup = options(daemon.remote(), CHUNK, SEATS * CHUNK).with(|options| options.grace = PATIENCE);
    let far = connect(&setup);
    let mut array = far.allocate_with::<u64>(WORDS, &region()).unwrap();
    (0..WORDS).for_each(|at| array[at] = at as u64);
    daemon.process.stop();
    let mut found = vec![0; WORDS];
    let [late] =
        run_all(vec![boxed(array.read_async(0, &mut found, Duration::from_millis(50)))]).try_into().unwrap();
    let Err(FarError::Deadline { done, waited, .. }) = late else { panic!("{late:?}") };
    assert!(done.is_multiple_of(CHUNK) && waited >= Duration::from_millis(50), "{done} {waited:?}");
    assert!((0..done / 8).all(|at| found[at] == at as u64));
    daemon.process.kill();
    drop((array, far));

    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let setup = options(daemon.local(), CHUNK, SEATS * CHUNK);
    let far = connect(&setup.with(|options| options.grace = Duration::from_millis(200)));
    let mut array = far.allocate_with::<u64>(WORDS, &region()).unwrap();
    (0..WORDS).for_each(|at| array[at] = at as u64);
    daemon.process.kill();
    let lost = run_all(vec![boxed(array.read_async(0, &mut found, PATIENCE))]).remove(0);
    assert!(matches!(lost, Err(FarError::Lost { .. })), "{lost:?}");
    drop((array, far));
    place.assert_nothing_left();
}
