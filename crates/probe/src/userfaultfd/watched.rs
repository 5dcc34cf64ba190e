//! An arena whose faults go to a userfaultfd that no thread reads.

use outboard_userfaultfd::{FaultWatch, Userfaultfd, Wake};
use rustix::io::Errno;

use super::arena::Arena;

/// An arena whose faults go to a userfaultfd. Its bytes are out of reach until this is dropped.
pub(super) struct Watched<'a> {
    owner: &'a Userfaultfd,
    arena: &'a mut Arena,
}

impl<'a> Watched<'a> {
    /// Watches all of `arena`.
    pub(super) fn new(
        owner: &'a Userfaultfd,
        arena: &'a mut Arena,
        watch: FaultWatch,
    ) -> Result<Self, Errno> {
        // SAFETY: no thread can touch the arena while it is borrowed, so none waits.
        unsafe { owner.register(arena.address(0), arena.len(), watch)? };
        Ok(Self { owner, arena })
    }

    /// Where a page begins.
    pub(super) fn address(&self, page: usize) -> usize {
        self.arena.address(page)
    }

    /// Copies page `from` to the absent page `to`, write-protected if `protect`.
    pub(super) fn copy(&mut self, from: usize, to: usize, protect: bool) -> Result<(), Errno> {
        let (from, to, len) = (self.address(from), self.address(to), self.arena.page_size());
        // SAFETY: both pages lie in the arena borrowed here.
        unsafe { self.owner.copy(from, to, len, protect, Wake::Now) }.map_err(|stopped| stopped.errno)
    }

    /// Moves page `from` to the absent page `to`, and leaves nothing behind.
    pub(super) fn relocate(&mut self, from: usize, to: usize) -> Result<(), Errno> {
        let (from, to, len) = (self.address(from), self.address(to), self.arena.page_size());
        // SAFETY: both pages lie in the arena borrowed here.
        unsafe { self.owner.relocate(from, to, len, Wake::Now) }.map_err(|stopped| stopped.errno)
    }

    /// Makes stores to a page wait for a handler, or no longer.
    pub(super) fn protect(&mut self, page: usize, set: bool) -> Result<(), Errno> {
        let (start, len) = (self.address(page), self.arena.page_size());
        // SAFETY: a page of the arena borrowed here, which no thread touches.
        unsafe { if set { self.owner.protect(start, len) } else { self.owner.unprotect(start, len) } }
    }

    /// Makes an absent page raise SIGBUS. It is never touched again: see `Trials`.
    pub(super) fn poison(&mut self, page: usize) -> Result<(), Errno> {
        let (start, len) = (self.address(page), self.arena.page_size());
        // SAFETY: a page of the arena borrowed here, which no code fills afterwards.
        unsafe { self.owner.poison(start, len, Wake::Now) }.map_err(|stopped| stopped.errno)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        // Giving the arena back while it is watched could make its reader wait for ever. The kernel refuses only
        // ranges that were never registered.
        // SAFETY: the arena is read by what each trial has put there, not by what was absent.
        let ended = unsafe { self.owner.unregister(self.arena.address(0), self.arena.len()) };
        assert_eq!(ended, Ok(()), "cannot unregister what was registered");
    }
}
