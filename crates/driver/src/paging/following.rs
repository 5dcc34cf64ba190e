//! The thread that changes the size of a buffer as memory comes and goes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use outboard_limits::{Files, Groups, MemoryLimits, memory_stalls};
use outboard_paging::application::{BufferFollower, MemoryReadings};

use super::PagerThreads;
use super::ProcessPages;
use super::threads::{look, spawn};

/// The state that the thread shares with those that ask it.
struct Following {
    follower: Mutex<BufferFollower>,
    is_over: Mutex<bool>,
    ends: Condvar,
}

/// Has a buffer follow the memory that this process may have, until it is dropped.
pub struct BufferKeeper {
    following: Arc<Following>,
    thread: Option<JoinHandle<()>>,
}

impl BufferKeeper {
    /// Begins with the buffer as it is.
    pub fn start(threads: &PagerThreads) -> std::io::Result<Self> {
        let pages = Arc::clone(&threads.pages);
        let follower = BufferFollower::new(pages.buffer(), pages.config().buffer_max);
        let following = Arc::new(Following {
            follower: Mutex::new(follower),
            is_over: Mutex::new(false),
            ends: Condvar::new(),
        });
        let (ours, workers) = (Arc::clone(&following), threads.workers.clone());
        let thread = spawn("outboard-buffer".to_owned(), move || {
            ours.follow(&pages, || look(&workers));
        })?;
        Ok(Self { following, thread: Some(thread) })
    }

    /// Why the buffer is as large as it is, for people.
    pub fn explain(&self) -> String {
        self.following.follower.lock().unwrap_or_else(PoisonError::into_inner).explain()
    }
}

impl Drop for BufferKeeper {
    fn drop(&mut self) {
        *self.following.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.following.ends.notify_all();
        if let Some(thread) = self.thread.take() {
            // One that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Following {
    fn follow(&self, pages: &ProcessPages, look: impl Fn()) {
        let clock = pages.space().clock;
        loop {
            let readings = readings();
            let fill = (pages.buffer_used(), pages.buffer_least());
            let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
            let size = follower.look(clock.now(), readings, fill);
            let pause = follower.looks_at().since(clock.now());
            drop(follower);
            // It is refused where chunks were pinned or mapped a moment ago; then it is smaller at the next look.
            if size != pages.buffer() && pages.set_buffer(size).is_ok() {
                look();
            }
            if self.is_over_after(pause) {
                return;
            }
        }
    }

    fn is_over_after(&self, pause: Duration) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ends.wait_timeout_while(is_over, pause, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The system's word about memory now. Where it knows no limit, there is as much as can be asked for.
fn readings() -> MemoryReadings {
    let files = Files::of_this_machine();
    let groups = Groups::read(&files);
    let limits = MemoryLimits::read(&files, &groups);
    let (left, reserve) = limits.tightest().map_or((u64::MAX, 0), |limit| (limit.left, limit.reserve()));
    MemoryReadings { left, reserve, stalled: memory_stalls(&files, &groups).unwrap_or_default() }
}
