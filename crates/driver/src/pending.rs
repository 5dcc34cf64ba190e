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

    /// Whether it takes megabytes before anything is known of the peer, as endpoints of fabrics do.
    fn is_dear(&self) -> bool;
}

macro_rules! pending {
    ($handshake:ty, $kind:ident, is_dear: $is_dear:literal) => {
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

            fn is_dear(&self) -> bool {
                $is_dear
            }
        }
    };
}

pending!(shm::Accepting, Shm, is_dear: false);
pending!(shm::Dialing, Shm, is_dear: false);
pending!(tcp::Accepting, Tcp, is_dear: false);
pending!(tcp::Dialing, Tcp, is_dear: false);
pending!(ofi::Accepting, Ofi, is_dear: true);
pending!(ofi::Dialing, Ofi, is_dear: true);
