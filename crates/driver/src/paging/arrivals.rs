//! How threads that answer their own page faults meet fault threads: they call them, and wait for what those bring.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::futex;

use super::Space;

/// How long a thread waits for a chunk until it looks again by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The bell of fault threads, and the arrivals for them.
#[derive(Debug)]
pub(super) struct Arrivals {
    bell: OwnedFd,
    is_called: AtomicBool,
    count: AtomicU32,
    waiting: AtomicU32,
}

impl Arrivals {
    pub(super) fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let [count, waiting] = [0, 0].map(AtomicU32::new);
        Ok(Self { bell, is_called: AtomicBool::new(false), count, waiting })
    }

    /// Wakes a fault thread, unless one was called that has not looked yet.
    pub(super) fn call(&self) {
        if !self.is_called.swap(true, Ordering::AcqRel) {
            // It fails only if it was written to for ever.
            let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
        }
    }

    /// A fault thread looks now for what was left to it.
    pub(super) fn hear(&self) {
        if self.is_called.load(Ordering::Acquire) {
            let mut count = [0; 8];
            // Another fault thread may have been faster.
            let _ = rustix::io::read(&self.bell, &mut count);
            self.is_called.swap(false, Ordering::AcqRel);
        }
    }

    /// A chunk has come, or will not come: those who wait look again.
    pub(super) fn tell(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            let _ = futex::wake(&self.count, futex::Flags::PRIVATE, i32::MAX as u32);
        }
    }
}

impl AsFd for Arrivals {
    /// Becomes readable when a fault thread is called.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

impl Space {
    /// How many chunks have come so far, for [`wait_for_arrival`](Self::wait_for_arrival).
    pub(super) fn arrivals_so_far(&self) -> u32 {
        self.arrivals.as_ref().map_or(0, |arrivals| arrivals.count.load(Ordering::SeqCst))
    }

    /// Waits until more have come than this, or for a moment. May be called in a signal handler.
    pub(super) fn wait_for_arrival(&self, so_far: u32) {
        let Some(Arrivals { count, waiting, .. }) = &self.arrivals else { return };
        let limit = rustix::time::Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN.as_nanos() as i64 };
        waiting.fetch_add(1, Ordering::SeqCst);
        // However it ends, the thread looks again.
        let _ = futex::wait(count, futex::Flags::PRIVATE, so_far, Some(&limit));
        waiting.fetch_sub(1, Ordering::SeqCst);
    }
}
