//! Why there is no measurement.

use outboard_link::{AccessError, ConnectError, FrameSendError, LinkError, Peer};
use rustix::io::Errno;
use thiserror::Error;

use crate::characterize::Party;

/// Why links could not be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// Bytes were lost or changed on the way: a figure from this would be a lie.
    #[error("{what} arrived changed: {found:#018x} instead of {expected:#018x}")]
    Changed {
        /// What was moved.
        what: &'static str,
        /// What was sent.
        expected: u64,
        /// What was received.
        found: u64,
    },
    /// The link could not be opened.
    #[error("the measured link cannot be opened")]
    Connect(#[from] ConnectError),
    /// The link was lost.
    #[error("the measured link was lost")]
    Link(#[from] LinkError),
    /// A frame was refused.
    #[error("the measured link refused a frame")]
    Send(#[from] FrameSendError),
    /// A one-sided access was refused.
    #[error("the measured link refused an access")]
    Access(#[from] AccessError),
    /// Another kind of process is at the address.
    #[error("{found} is no {expected}: give the address of one")]
    WrongParty {
        /// Who should be there.
        expected: Party,
        /// Who is.
        found: Peer,
    },
    /// The daemon does not take part.
    #[error("{peer} does not let itself be measured: {why}")]
    Refused {
        /// Who.
        peer: Peer,
        /// In its own words.
        why: String,
    },
    /// The operating system refused.
    #[error("{call} failed")]
    System {
        /// Which call.
        call: &'static str,
        /// Why.
        source: Errno,
    },
}

/// Names the call that failed.
pub(crate) trait Named<T> {
    /// This result, with the call's name in the error.
    fn named(self, call: &'static str) -> Result<T, MeasureError>;
}

impl<T> Named<T> for Result<T, Errno> {
    fn named(self, call: &'static str) -> Result<T, MeasureError> {
        self.map_err(|source| MeasureError::System { call, source })
    }
}
