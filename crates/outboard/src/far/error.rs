//! Why far memory cannot be had.

use std::time::Duration;

use outboard_driver::paging::{PagingError, ThreadsError};
use outboard_link::ConnectError;
use thiserror::Error;

use crate::client::AskError;

/// Why far memory cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FarError {
    /// No memory server is configured.
    #[error("no memory server is configured: set job.memory (OUTBOARD_JOB_MEMORY) to its address")]
    NoServer,
    /// The memory server cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The memory server said no.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// This machine cannot.
    #[error(transparent)]
    Paging(#[from] PagingError),
    /// The threads that answer faults cannot work.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// A region's size is no multiple of that of its elements.
    #[error("region “{name}” has {bytes} bytes, which is no whole number of elements of {element} bytes")]
    Uneven {
        /// Which region.
        name: String,
        /// How large it is.
        bytes: u64,
        /// How large an element is.
        element: usize,
    },
    /// More elements than addresses.
    #[error("{len} elements of {element} bytes are more than can be addressed")]
    TooLong {
        /// How many.
        len: usize,
        /// How large each is.
        element: usize,
    },
    /// Written chunks did not reach the server in time.
    #[error("{unsaved} chunks of region “{name}” did not reach the memory server within {patience:?}")]
    NotFlushed {
        /// Which region.
        name: String,
        /// How many chunks.
        unsaved: usize,
        /// How long was waited.
        patience: Duration,
    },
    /// A span that is not inside its region.
    #[error("bytes {start}..{end} are outside a region of {size} bytes")]
    OutOfBounds {
        /// Where it begins.
        start: usize,
        /// Where it ends.
        end: usize,
        /// How large the region is.
        size: usize,
    },
    /// More pinned than the buffer can spare.
    #[error(
        "pinning {asked} bytes would leave too little of a part of the buffer: {pinned} of the {most} bytes there that may \
         be pinned are; enlarge the buffer, or pin neighbours rather than chunks that are far apart"
    )]
    TooMuchPinned {
        /// How much was asked for.
        asked: usize,
        /// How much of that part is pinned already.
        pinned: usize,
        /// How much of it may be.
        most: usize,
    },
}
