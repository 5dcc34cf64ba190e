//! What can become of a write.

use std::sync::Arc;
use std::time::Duration;

use outboard_limits::show_size;
use outboard_link::{AccessError, LinkError, Peer};
use outboard_wire::Rights;
use thiserror::Error;

/// Why bytes are not written, or a region cannot be.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The span is not inside the region.
    #[error("bytes {offset}..{} are outside a region of {}", offset.saturating_add(*len), show_size(*size))]
    OutOfBounds {
        /// Where the write begins.
        offset: u64,
        /// How long it is.
        len: u64,
        /// How large the region is.
        size: u64,
    },
    /// The region was opened without this right, or its key does not carry it.
    #[error("no right to {needed} this region")]
    NoRight {
        /// What the write needs.
        needed: Rights,
    },
    /// The region is not open here, or the memory server knows no such region any more.
    #[error("the region is not open: unknown region, stale generation or wrong key")]
    NotOpen,
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
    /// This machine or that of the memory server lacks what it takes to open the region.
    #[error(transparent)]
    Open(Arc<dyn std::error::Error + Send + Sync>),
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

impl WriteError {
    pub(super) fn new(error: AccessError) -> Self {
        match error {
            AccessError::OutOfBounds { offset, len, size } => Self::OutOfBounds { offset, len, size },
            AccessError::NoRight { needed } => Self::NoRight { needed },
            AccessError::NotOpen => Self::NotOpen,
            AccessError::TooLong { len, max } => Self::TooLong { len, max },
            AccessError::Full | AccessError::Busy => Self::TooManyRegions,
            AccessError::Lost(lost) => Self::Lost(lost),
            other => Self::Open(Arc::new(other)),
        }
    }
}
