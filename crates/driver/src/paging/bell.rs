//! A bell for a thread that sleeps.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Wakes one thread, by one system call however often it is rung before that has looked.
#[derive(Debug)]
pub(super) struct Bell {
    descriptor: OwnedFd,
    is_rung: AtomicBool,
}

impl Bell {
    pub(super) fn new() -> Result<Self, Errno> {
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { descriptor, is_rung: AtomicBool::new(false) })
    }

    /// Wakes the thread, unless it was rung and has not heard it yet.
    pub(super) fn ring(&self) {
        if !self.is_rung.swap(true, Ordering::AcqRel) {
            // It fails only if it was written to for ever.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    /// The thread looks now for what it was called for.
    pub(super) fn hear(&self) {
        let mut count = [0; 8];
        // There is nothing to read if another has been faster.
        let _ = rustix::io::read(&self.descriptor, &mut count);
        self.is_rung.store(false, Ordering::Release);
    }
}

impl AsFd for Bell {
    /// Becomes readable when it is rung.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
