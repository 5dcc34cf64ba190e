//! How one thread hands things to another that may be asleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// A queue with a bell. For rare things such as new links and orders to stop, never for frames.
#[derive(Debug)]
pub struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    bell: OwnedFd,
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    pub fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { letters: Mutex::default(), bell })
    }

    /// Puts a letter in and rings.
    pub fn post(&self, letter: T) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        // The counter can only be full if it was rung before, and then the owner wakes anyway.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Takes all letters.
    pub fn take(&self) -> Vec<T> {
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
