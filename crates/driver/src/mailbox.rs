//! How one thread hands things to another that may be asleep.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::pulse::Pulse;

/// A queue with a bell. For rare things such as new links and orders to stop, never for frames.
#[derive(Debug)]
pub struct Mailbox<T> {
    letters: Mutex<Vec<T>>,
    bell: Arc<Bell>,
}

/// The bell that wakes the owner of a mailbox.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Whether there may be letters: cheap to look at for an owner that is too busy to sleep.
    is_rung: AtomicBool,
    counter: OwnedFd,
}

impl Bell {
    pub(crate) fn new() -> Result<Self, Errno> {
        let counter = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { is_rung: AtomicBool::new(false), counter })
    }

    /// Has the owner look for letters.
    pub(crate) fn ring(&self) {
        self.is_rung.store(true, Ordering::Release);
        // The counter can only be full if it was rung before, and then the owner wakes anyway.
        let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
    }

    /// Whether it was rung since it was last silenced.
    pub(crate) fn is_rung(&self) -> bool {
        self.is_rung.load(Ordering::Acquire)
    }

    fn silence(&self) {
        self.is_rung.store(false, Ordering::Release);
        // Nothing to read means that no thread rang.
        let _ = rustix::io::read(&self.counter, &mut [0; 8]);
    }
}

impl<T> Mailbox<T> {
    /// An empty mailbox.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self { letters: Mutex::default(), bell: Arc::new(Bell::new()?) })
    }

    /// Puts a letter in and rings.
    pub fn post(&self, letter: T) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        self.bell.ring();
    }

    /// Whether there may be letters.
    pub fn is_filled(&self) -> bool {
        self.bell.is_rung()
    }

    /// Takes all letters.
    pub fn take(&self) -> Vec<T> {
        self.bell.silence();
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Becomes readable when there are letters.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.bell.counter.as_fd()
    }

    /// The pulse of its owner, a thread that turns whenever the bell wakes it.
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::new(Pulse::new(Arc::clone(&self.bell)))
    }
}
