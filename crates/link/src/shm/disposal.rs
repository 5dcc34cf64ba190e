//! Unwanted descriptors of peers, closed in a thread of their own: closing one can take long.
//!
//! The last to close a descriptor does what its maker has arranged: a TCP socket with unsent bytes has it wait as long as
//! `SO_LINGER` says, a file of a file system in user space as long as its server likes. A peer that sends such a descriptor
//! and closes its own would stop an event loop for as long. So only memory files are closed in place.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::net::sockopt::set_socket_linger;

/// How many threads close descriptors at once: as many as can be kept waiting, and others are still closed.
const THREADS_MAX: usize = 8;

/// The descriptors to be closed, and how many threads close them.
struct Disposal {
    waiting: VecDeque<OwnedFd>,
    threads: usize,
}

static DISPOSAL: Mutex<Disposal> = Mutex::new(Disposal { waiting: VecDeque::new(), threads: 0 });

fn with_disposal<T>(use_it: impl FnOnce(&mut Disposal) -> T) -> T {
    use_it(&mut DISPOSAL.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The descriptor, if it is of a memory file, or of a file where those are taken: the only kinds that are ever sent. Any other is
/// closed elsewhere.
pub(super) fn only_memory(descriptor: OwnedFd, takes_files: bool) -> Option<OwnedFd> {
    if rustix::fs::fcntl_get_seals(&descriptor).is_ok() {
        return Some(descriptor);
    }
    let is_file = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
    if takes_files && rustix::fs::fstat(&descriptor).is_ok_and(|state| is_file(state.st_mode)) {
        return Some(descriptor);
    }
    dispose(descriptor);
    None
}

fn dispose(descriptor: OwnedFd) {
    // A socket gives up what it has not sent, unless the peer changes that again at this moment.
    let _ = set_socket_linger(&descriptor, None);
    let needs_thread = with_disposal(|disposal| {
        disposal.waiting.push_back(descriptor);
        let needs_thread = disposal.threads < THREADS_MAX.min(disposal.waiting.len());
        disposal.threads += usize::from(needs_thread);
        needs_thread
    });
    if needs_thread && std::thread::Builder::new().name("closing".to_owned()).spawn(close_all).is_err() {
        // Without a thread they wait for the next that there is one for.
        with_disposal(|disposal| disposal.threads -= 1);
    }
}

/// Closes what waits, and ends.
fn close_all() {
    while let Some(descriptor) = with_disposal(|disposal| {
        let next = disposal.waiting.pop_front();
        disposal.threads -= usize::from(next.is_none());
        next
    }) {
        drop(descriptor);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn descriptors_that_are_no_memory_are_closed_by_another_thread() {
        let (ours, theirs) = rustix::pipe::pipe().unwrap();
        assert!(only_memory(theirs, true).is_none());
        let until = Instant::now() + Duration::from_secs(30);
        // No process can write to it once the other end is closed.
        while rustix::io::read(&ours, &mut [0; 1]) != Ok(0) {
            assert!(Instant::now() < until);
        }
        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        assert!(only_memory(rustix::fs::memfd_create(c"test", flags).unwrap(), false).is_some());
    }
}
