//! Why far memory cannot be had.

use std::time::Duration;

use outboard_driver::paging::{LossReason, PagingError, ThreadsError};
use outboard_limits::{MemoryLimit, show_size};
use outboard_link::Address;
use thiserror::Error;

use crate::client::AskError;
use crate::find::FindError;

/// Why far memory cannot be had.
#[derive(Error)]
#[non_exhaustive]
pub enum FarError {
    /// The options name no memory server, and none was found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// A buffer that is a part of something of which nobody has said how much it is.
    #[error(
        "the buffer is to be {numerator}/{denominator} of the far memory that is used, and how much that is was not said: set \
         FarOptions::footprint, or give the buffer in bytes"
    )]
    NoFootprint {
        /// So many parts
        numerator: u32,
        /// of this many.
        denominator: u32,
    },
    /// Stripes that cannot be.
    #[error("stripes of {} will not do: they must be a power of two", show_size(*stripe as u64))]
    BadStripe {
        /// How long they are to be.
        stripe: usize,
    },
    /// A memory server that was named twice.
    #[error("the memory server at {address} is named twice; stripes go to different ones")]
    SameServer {
        /// Where.
        address: Address,
    },
    /// A NUMA node for the buffer that has no memory, or is not there.
    #[error(
        "this machine has no memory node {node} for the buffer: it has {}; name one of these, auto (the nearest to the link) or \
         none (wherever the kernel puts it)",
        list(there)
    )]
    NoNode {
        /// The node.
        node: u32,
        /// Those there are.
        there: Vec<u32>,
    },
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
    #[error(
        "region “{name}” has {}, which is no whole number of elements of {}",
        show_size(*bytes),
        show_size(*element as u64)
    )]
    Uneven {
        /// Which region.
        name: String,
        /// How large it is.
        bytes: u64,
        /// How large an element is.
        element: usize,
    },
    /// More elements than addresses.
    #[error("{len} elements of {} are more than can be addressed", show_size(*element as u64))]
    TooLong {
        /// How many.
        len: usize,
        /// How large each is.
        element: usize,
    },
    /// Written chunks did not reach the server in time.
    #[error(
        "{unsaved} chunks of region “{name}” did not reach the memory server at {server} within {patience:?}"
    )]
    NotFlushed {
        /// Where the server is.
        server: Address,
        /// Which region.
        name: String,
        /// How many chunks.
        unsaved: usize,
        /// How long was waited.
        patience: Duration,
    },
    /// A span that is not inside its region.
    #[error("bytes {start}..{end} are outside a region of {}", show_size(*size as u64))]
    OutOfBounds {
        /// Where it begins.
        start: usize,
        /// Where it ends.
        end: usize,
        /// How large the region is.
        size: usize,
    },
    /// Bytes that are not here, and whose memory server is lost for good.
    #[error(
        "bytes {start}..{end} of “{name}” are lost with the memory server at {server}: {why}; {done} bytes before them were \
         copied, and what is here can still be read and written"
    )]
    Lost {
        /// Where the server was.
        server: Address,
        /// Which object.
        name: String,
        /// Where the bytes begin in the object.
        start: usize,
        /// Where they end.
        end: usize,
        /// How many bytes before them were copied.
        done: usize,
        /// Why the server is lost.
        why: LossReason,
    },
    /// Bytes that are not here, and did not come in time.
    #[error(
        "bytes {start}..{end} of “{name}” did not come from the memory server at {server} within {patience:?}; {done} bytes \
         before them were copied"
    )]
    Late {
        /// Where the server is.
        server: Address,
        /// Which object.
        name: String,
        /// Where the bytes begin in the object.
        start: usize,
        /// Where they end.
        end: usize,
        /// How many bytes before them were copied.
        done: usize,
        /// How long was waited, at most.
        patience: Duration,
    },
    /// Bytes that this process has thrown away.
    #[error(
        "bytes {start}..{end} of “{name}” were thrown away by this process (madvise with MADV_DONTNEED or MADV_FREE does \
         that; use Advice::DontNeed), and what was written there is lost"
    )]
    ThrownAway {
        /// Which object.
        name: String,
        /// Where the bytes begin in the object.
        start: usize,
        /// Where they end.
        end: usize,
        /// How many bytes before them were copied.
        done: usize,
    },
    /// An object of the process that has forked this one.
    #[error(
        "“{name}” is far memory of process {process}: a child that was forked has none of it; connect anew"
    )]
    OfParent {
        /// Which object.
        name: String,
        /// Which process.
        process: u32,
    },
    /// A write to an object that may only be read.
    #[error("“{name}” may only be read here; open it with open_writable to write it")]
    ReadOnly {
        /// Which object.
        name: String,
    },
    /// More pinned than the buffer can spare.
    #[error(
        "pinning {} would leave too little of a part of the buffer: {} of the {} there that may be pinned are; enlarge the \
         buffer, or pin neighbours rather than chunks that are far apart",
        show_size(*asked as u64),
        show_size(*pinned as u64),
        show_size(*most as u64)
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

/// A buffer that does not fit where it is to be.
#[derive(Error)]
#[error(
    "a buffer of {} is more than {limit}: once it is full, this process is killed or the machine swaps; choose a smaller \
     buffer",
    outboard_limits::show_bytes(*buffer as u64)
)]
pub struct BufferTooLarge {
    /// How large it is to be, in bytes.
    pub buffer: usize,
    /// What there is.
    pub limit: MemoryLimit,
}

outboard_wire::debug_with_causes!(FarError, BufferTooLarge);

fn list(nodes: &[u32]) -> String {
    let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
    numbers.join(", ")
}
