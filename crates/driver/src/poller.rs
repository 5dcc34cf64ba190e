//! Sleeping on many descriptors at once.

use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use outboard_wire::Time;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

/// How many events one wait reports; the rest come with the next.
const EVENTS_MAX: usize = 64;

/// An epoll instance.
pub(crate) struct Poller {
    epoll: OwnedFd,
    keys: Vec<u64>,
}

/// What to wake for, on one descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
}

impl Interest {
    pub(crate) const READ: Self = Self { readable: true, writable: false };

    fn flags(self) -> EventFlags {
        let none = EventFlags::empty();
        let read = if self.readable { EventFlags::IN } else { none };
        read | if self.writable { EventFlags::OUT } else { none }
    }
}

impl Poller {
    pub(crate) fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, keys: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Watches a descriptor; it is forgotten when it is closed.
    pub(crate) fn add(&self, descriptor: BorrowedFd<'_>, key: u64, on: Interest) -> Result<(), Errno> {
        epoll::add(&self.epoll, descriptor, EventData::new_u64(key), on.flags())
    }

    /// Watches a descriptor that other pollers watch too; one of those that sleep is woken.
    pub(crate) fn add_shared(&self, descriptor: BorrowedFd<'_>, key: u64) -> Result<(), Errno> {
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        epoll::add(&self.epoll, descriptor, EventData::new_u64(key), flags)
    }

    /// Watches a descriptor no longer, though it stays open.
    pub(crate) fn remove(&self, descriptor: BorrowedFd<'_>) {
        // One that was never watched is not watched now.
        let _ = epoll::delete(&self.epoll, descriptor);
    }

    /// Changes what to wake for.
    pub(crate) fn change(&self, descriptor: BorrowedFd<'_>, key: u64, on: Interest) -> Result<(), Errno> {
        epoll::modify(&self.epoll, descriptor, EventData::new_u64(key), on.flags())
    }

    /// Sleeps until something happens or `until`, and returns the keys of what did.
    pub(crate) fn wait(&mut self, now: Time, until: Option<Time>) -> Result<&[u64], Errno> {
        let timeout = until.map(|until| {
            let span = until.since(now).min(Duration::from_secs(3600));
            Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() }
        });
        self.keys.clear();
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS_MAX];
        match epoll::wait(&self.epoll, &mut events, timeout.as_ref()) {
            Ok((events, _)) => self.keys.extend(events.iter().map(|event| event.data.u64())),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        Ok(&self.keys)
    }
}
