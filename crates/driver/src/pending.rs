//! Handshakes that are not finished, of whatever kind.

use std::os::fd::BorrowedFd;

use outboard_link::{ConnectError, ofi, shm, tcp};
use outboard_wire::Time;

use crate::NewLink;

/// A handshake that is under way. Rare enough for dynamic dispatch.
pub(crate) trait Pending: Send {
    /// Goes on as far as it can.
    fn advance(&mut self, now: Time) -> Result<Option<NewLink>, ConnectError>;

    /// What to wait on.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// When it gives up.
    fn deadline(&self) -> Time;
}

macro_rules! pending {
    ($handshake:ty, $kind:ident) => {
        impl Pending for $handshake {
            fn advance(&mut self, now: Time) -> Result<Option<NewLink>, ConnectError> {
                Ok(self.poll(now)?.map(|link| NewLink::$kind(Box::new(link))))
            }

            fn descriptor(&self) -> Option<BorrowedFd<'_>> {
                <$handshake>::descriptor(self)
            }

            fn deadline(&self) -> Time {
                <$handshake>::deadline(self)
            }
        }
    };
}

pending!(shm::Accepting, Shm);
pending!(shm::Dialing, Shm);
pending!(tcp::Accepting, Tcp);
pending!(tcp::Dialing, Tcp);
pending!(ofi::Accepting, Ofi);
pending!(ofi::Dialing, Ofi);
