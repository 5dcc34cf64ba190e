//! Handshakes that peers have begun, of whatever kind.

use std::os::fd::BorrowedFd;

use outboard_link::{AnyLink, ConnectError, ofi, shm, tcp};
use outboard_wire::Time;
use rustix::io::Errno;

/// A handshake that a peer has begun. Rare enough for dynamic dispatch.
pub(crate) trait Incoming: Send {
    /// Listens. Returns whether the peer has said who it is, and waits for its link.
    fn hear(&mut self, now: Time) -> Result<bool, ConnectError>;

    /// Makes the link, which takes memory and time; `None` means that it has to be tried again later.
    fn greet(&mut self, now: Time) -> Result<Option<AnyLink>, ConnectError>;

    /// Tells a peer that was heard that its turn will come.
    fn reassure(&mut self, now: Time) -> Result<(), ConnectError>;

    /// Tells the peer that there is no room for it because a system call has failed.
    fn turn_away(&mut self, why: (&'static str, Errno), now: Time) -> ConnectError;

    /// Whether the peer reads a refusal though it has said nothing yet.
    fn hears_refusals(&self) -> bool;

    /// The descriptor to wait on.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// When to look at it again, if nothing happens before.
    fn next_look(&self) -> Time;

    /// Whether it takes megabytes before anything is known of the peer, as endpoints of fabrics do.
    fn is_dear(&self) -> bool;

    /// Whether making the link passes a descriptor, for which the kernel may have no room at the moment.
    fn passes_descriptors(&self) -> bool;
}

macro_rules! incoming {
    ($handshake:ty, is_dear: $is_dear:literal, passes_descriptors: $passes:literal, $greeted:expr) => {
        impl Incoming for $handshake {
            fn hear(&mut self, now: Time) -> Result<bool, ConnectError> {
                <$handshake>::hear(self, now)
            }

            fn greet(&mut self, now: Time) -> Result<Option<AnyLink>, ConnectError> {
                Ok($greeted(<$handshake>::greet(self, now)?).map(AnyLink::from))
            }

            fn reassure(&mut self, now: Time) -> Result<(), ConnectError> {
                <$handshake>::reassure(self, now)
            }

            fn turn_away(&mut self, why: (&'static str, Errno), now: Time) -> ConnectError {
                <$handshake>::turn_away(self, why, now)
            }

            fn hears_refusals(&self) -> bool {
                <$handshake>::hears_refusals(self)
            }

            fn descriptor(&self) -> Option<BorrowedFd<'_>> {
                <$handshake>::descriptor(self)
            }

            fn next_look(&self) -> Time {
                <$handshake>::next_look(self)
            }

            fn is_dear(&self) -> bool {
                $is_dear
            }

            fn passes_descriptors(&self) -> bool {
                $passes
            }
        }
    };
}

incoming!(shm::ShmAccepting, is_dear: false, passes_descriptors: true, std::convert::identity);
incoming!(tcp::TcpAccepting, is_dear: false, passes_descriptors: false, Some);
incoming!(ofi::OfiAccepting, is_dear: true, passes_descriptors: false, Some);
