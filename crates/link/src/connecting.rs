//! Connecting, on every kind of link.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use outboard_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{Clock, ConnectError};

/// A connection that we make and whose handshake is not finished, over one kind of link.
pub trait Connecting: Send {
    /// The link that comes of it.
    type Link;

    /// Goes on with the handshake; `None` means not yet.
    fn go_on(&mut self, now: Time) -> Result<Option<Self::Link>, ConnectError>;

    /// The descriptor to wait on.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The event that a thread waits for if it does nothing else, and for how long at most. Nothing, where going on is waiting.
    fn awaits(&self, now: Time) -> Option<(PollFlags, Duration)>;
}

/// Waits until the link is open, or until the other side has been silent for too long.
pub(crate) fn finish<D: Connecting>(mut connecting: D, clock: Clock) -> Result<D::Link, ConnectError> {
    loop {
        if let Some(link) = connecting.go_on(clock.now())? {
            return Ok(link);
        }
        let (Some(descriptor), Some((events, span))) =
            (connecting.descriptor(), connecting.awaits(clock.now()))
        else {
            continue;
        };
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        // Whatever poll says, the handshake finds out for itself, and it has a deadline.
        let _ = poll(&mut [PollFd::from_borrowed_fd(descriptor, events)], Some(&timeout));
    }
}
