//! How one thread hands things to another that may be asleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// A queue with a bell. For rare things such as new links and orders to stop, never for frames.
#[derive(Debug)]
pub struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    /// Whether there may be letters: cheap to look at for an owner that is too busy to sleep.
    is_filled: AtomicBool,
    bell: OwnedFd,
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    pub fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { letters: Mutex::default(), is_filled: AtomicBool::new(false), bell })
    }

    /// Puts a letter in and rings.
    pub fn post(&self, letter: T) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        self.is_filled.store(true, Ordering::Release);
        // The counter can only be full if it was rung before, and then the owner wakes anyway.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Whether there are letters.
    pub fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    /// Takes all letters.
    pub fn take(&self) -> Vec<T> {
        self.is_filled.store(false, Ordering::Release);
        let mut rings = [0; 8];
        // Nothing to read means that nobody rang.
        let _ = rustix::io::read(&self.bell, &mut rings);
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Becomes readable when there are letters.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
