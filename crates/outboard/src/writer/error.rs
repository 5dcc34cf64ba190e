//! What can become of a write.

use std::time::Duration;

use outboard_limits::show_size;
use outboard_link::{AccessError, LinkError, Peer};
use thiserror::Error;

/// Why bytes are not written, or a region cannot be.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The write was refused, or a machine lacks what it takes to open the region. It is never [`AccessError::Lost`].
    #[error(transparent)]
    Access(AccessError),
    /// A write longer than [`Writer::longest`](super::Writer::longest).
    #[error(
        "a write of {} is over the {} that one can have: cut it, or raise WriterOptions::ring_bytes",
        show_size(*len as u64),
        show_size(*max as u64)
    )]
    TooLong {
        /// How long it is.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// As many completions as are kept wait for a [`poll`](super::Writer::poll).
    #[error("{kept} completions wait to be asked for: poll them, or write without a signal")]
    NotPolled {
        /// How many.
        kept: usize,
    },
    /// The memory server has no room for another open region.
    #[error("the memory server has no room for another open region: close one that is not needed")]
    TooManyRegions,
    /// The call has waited for as long as the [deadline](super::Writer::with_deadline) says. The writer goes on, and so does
    /// what is under way.
    #[error("{awaited} did not come within {waited:?}, from {peer}: raise the deadline if it has much to do")]
    Deadline {
        /// From whom.
        peer: Peer,
        /// How long was waited.
        waited: Duration,
        /// For what.
        awaited: &'static str,
    },
    /// The memory server is gone. Every call says so from then on; whether the write was done is not known.
    #[error(transparent)]
    Lost(LinkError),
}

outboard_wire::debug_with_causes!(WriteError);

impl From<AccessError> for WriteError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::TooLong { len, max } => Self::TooLong { len, max },
            AccessError::Full | AccessError::Busy => Self::TooManyRegions,
            AccessError::Lost(lost) => Self::Lost(lost),
            other => Self::Access(other),
        }
    }
}
