//! Descriptors that are kept for when there are no others.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// How many are kept: so many peers at a time can be told that there are no others.
const KEPT: usize = 8;

/// A few descriptors that are open for nothing, so that closing one lets another be opened.
pub(crate) struct Reserve {
    kept: Vec<OwnedFd>,
    original: OwnedFd,
}

impl Reserve {
    /// As many as there are, up to a number.
    pub(crate) fn new() -> Result<Self, Errno> {
        let original = eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut reserve = Self { kept: Vec::with_capacity(KEPT), original };
        reserve.refill();
        Ok(reserve)
    }

    /// Takes back what can be had.
    pub(crate) fn refill(&mut self) {
        while self.kept.len() < KEPT {
            match self.original.as_fd().try_clone_to_owned() {
                Ok(descriptor) => self.kept.push(descriptor),
                Err(_) => break,
            }
        }
    }

    /// Gives one up, for another to be opened in its place. Returns false if none is left.
    pub(crate) fn give_up(&mut self) -> bool {
        self.kept.pop().is_some()
    }

    /// Calls `open`, which opens a descriptor and closes it again, with one at hand.
    pub(crate) fn lend<T>(&mut self, open: impl FnOnce() -> T) -> T {
        self.give_up();
        let opened = open();
        self.refill();
        opened
    }
}
