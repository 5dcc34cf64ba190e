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
    /// The events that the last wait has reported, in order.
    keys: Vec<u64>,
    /// Whether there may have been more.
    is_partial: bool,
}

/// The events to wake for, on one descriptor.
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
        Ok(Self { epoll, keys: Vec::with_capacity(EVENTS_MAX), is_partial: true })
    }

    /// Watches a descriptor, until it is [removed](Self::remove): closing it is not enough where its socket is held by
    /// another descriptor as well, such as one that a child has inherited.
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
            Err(Errno::INTR) => {
                self.is_partial = true;
                return Ok(&[]);
            }
            Err(error) => return Err(error),
        }
        self.keys.sort_unstable();
        self.is_partial = self.keys.len() == EVENTS_MAX;
        Ok(&self.keys)
    }

    /// Whether anything had happened to what this key watches when the last wait ended, if that is known.
    pub(crate) fn has_seen(&self, key: u64) -> Option<bool> {
        (!self.is_partial).then(|| self.keys.binary_search(&key).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn it_is_known_to_whom_nothing_has_happened() {
        let mut poller = Poller::new().unwrap();
        let events = [5u64, 3].map(|key| {
            let event = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            poller.add(event.as_fd(), key, Interest::READ).unwrap();
            event
        });
        assert_eq!(poller.has_seen(3), None, "no look was taken yet");
        assert!(poller.wait(Time::ZERO, Some(Time::ZERO)).unwrap().is_empty());
        assert_eq!([3, 5].map(|key| poller.has_seen(key)), [Some(false), Some(false)]);
        rustix::io::write(&events[1], &1u64.to_ne_bytes()).unwrap();
        assert_eq!(poller.wait(Time::ZERO, None).unwrap(), [3]);
        assert_eq!([3, 5].map(|key| poller.has_seen(key)), [Some(true), Some(false)]);
        rustix::io::write(&events[0], &1u64.to_ne_bytes()).unwrap();
        assert_eq!(poller.wait(Time::ZERO, None).unwrap(), [3, 5]);
        assert_eq!([3, 5].map(|key| poller.has_seen(key)), [Some(true), Some(true)]);
    }

    #[test]
    fn of_more_than_is_told_at_once_nothing_is_known() {
        let mut poller = Poller::new().unwrap();
        let events: Vec<OwnedFd> = (0..EVENTS_MAX as u64)
            .map(|key| {
                let event = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
                poller.add(event.as_fd(), key, Interest::READ).unwrap();
                event
            })
            .collect();
        assert_eq!(poller.wait(Time::ZERO, None).unwrap().len(), events.len());
        assert_eq!(poller.has_seen(u64::MAX), None);
    }
}
