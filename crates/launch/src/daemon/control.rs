//! How the owner of a daemon speaks with the thread that keeps it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

use crate::process::End;

/// What the owner wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Request {
    Stop { grace: Duration },
    Kill,
}

#[derive(Debug)]
pub(super) struct Control {
    /// Readable while there is a request.
    wake: OwnedFd,
    request: Mutex<Option<Request>>,
    end: Mutex<Option<End>>,
}

impl Control {
    pub(super) fn new() -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { wake, request: Mutex::new(None), end: Mutex::new(None) })
    }

    pub(super) fn request(&self, request: Request) {
        *lock(&self.request) = Some(request);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(super) fn take_request(&self) -> Option<Request> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        lock(&self.request).take()
    }

    pub(super) fn set_end(&self, end: End) {
        *lock(&self.end) = Some(end);
    }

    pub(super) fn end(&self) -> Option<End> {
        *lock(&self.end)
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Every value behind these locks is replaced as a whole, so a panic leaves none half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
