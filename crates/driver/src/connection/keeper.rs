//! The thread that shows that the clients of this process live, while the application computes and makes no calls.

use std::sync::{Mutex, TryLockError, Weak};
use std::time::{Duration, Instant};

use super::Tend;
use super::one_thread::{OneThread, Work};

/// The shortest pause between two signs of life.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Where the system gives no such thread, the application must make a call within each deadline; it still works.
static KEEPER: OneThread<Entry> = OneThread::new("outboard-alive");

/// A client that may be in a call.
trait Kept: Send + Sync {
    /// Tends the client if it is in no call. Returns how soon that is wanted again, if there is a time.
    fn tend(&self) -> Option<Duration>;
}

impl<T: Tend> Kept for Mutex<T> {
    fn tend(&self) -> Option<Duration> {
        match self.try_lock() {
            Ok(mut client) => client.tend(),
            Err(TryLockError::Poisoned(client)) => client.into_inner().tend(),
            // The thread that holds the lock is in a call, which shows that we live.
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

struct Entry {
    client: Weak<dyn Kept>,
    pause: Duration,
    due: Instant,
}

impl Work for Entry {
    fn due(&self) -> Instant {
        self.due
    }

    fn step(&mut self) -> bool {
        let Some(client) = self.client.upgrade() else { return false };
        // The daemon's settings may want signs of life more often than ours.
        let pause = client.tend().map_or(self.pause, |wanted| wanted.min(self.pause));
        self.due = Instant::now() + pause.max(PAUSE_MIN);
        true
    }
}

/// Has a client tended at least once in each `pause`, for as long as it exists.
pub(super) fn keep<T: Tend>(client: Weak<Mutex<T>>, pause: Duration) {
    let pause = pause.max(PAUSE_MIN);
    KEEPER.give(Entry { client, pause, due: Instant::now() + pause });
}
