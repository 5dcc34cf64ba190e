//! Why far memory cannot be had.

use std::time::Duration;

use outboard_driver::paging::{LossReason, PageProtection, PagingError, ThreadsError};
use outboard_limits::{MemoryLimit, show_bytes, show_size};
use outboard_link::Address;
use thiserror::Error;

use crate::client::AskError;
use crate::error::OpenError;

/// Why far memory cannot be had.
#[derive(Error)]
#[non_exhaustive]
pub enum FarError {
    /// A memory server cannot be reached.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A buffer that is a fraction of an amount that was not given.
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
    Threads(Box<dyn std::error::Error + Send + Sync>),
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
    /// An arena with a name.
    #[error(
        "an arena cannot be named “{name}”: where its blocks are is known to this process alone; reserve it without a name"
    )]
    NamedArena {
        /// The name.
        name: String,
    },
    /// An arena without room for a block.
    #[error(
        "an arena of {} has no room for a block of {}: {} of it are free, {} of them side by side; reserve a larger one, which takes \
         memory only as it is written",
        show_bytes(*reserved),
        show_bytes(*asked as u64),
        show_bytes(*free),
        show_bytes(*longest)
    )]
    ArenaFull {
        /// How many bytes were asked for.
        asked: usize,
        /// How many the arena has.
        reserved: u64,
        /// How many of them are free.
        free: u64,
        /// How many of these are side by side.
        longest: u64,
    },
    /// A block that would have to begin at addresses that no arena keeps to.
    #[error(
        "a block that is aligned to {align} bytes is not for far memory, whose regions begin at pages: {most} is the most"
    )]
    TooAligned {
        /// To how many bytes it is to be aligned.
        align: usize,
        /// The most that can be had.
        most: usize,
    },
    /// An array that is full, and has a name that others know its region by.
    #[error(
        "“{name}” has room for {} and cannot move to a longer region: others know it by its name; reserve as much as it may need, \
         which takes memory only as it is written",
        show_bytes(*room)
    )]
    CannotGrow {
        /// Which array.
        name: String,
        /// How many bytes it has room for.
        room: u64,
    },
    /// Written chunks did not reach the server in time.
    #[error(
        "{unsaved} chunks of region “{name}” did not reach the memory server at {server} within {waited:?}"
    )]
    NotFlushed {
        /// Where the server is.
        server: Address,
        /// Which region.
        name: String,
        /// How many chunks.
        unsaved: usize,
        /// How long was waited.
        waited: Duration,
    },
    /// The memory server has no room for what was written.
    #[error(
        "{unsaved} chunks of region “{name}” stay here, for the memory server at {server} has no room for them; free regions \
         there, or start it with more --capacity, then flush again"
    )]
    NoRoom {
        /// Where the server is.
        server: Address,
        /// Which region.
        name: String,
        /// How many chunks.
        unsaved: usize,
    },
    /// Bytes could not be discarded in time, or their server is lost for good.
    #[error(
        "bytes of region “{name}” at the memory server at {server} were not discarded within {waited:?}; each is zero or as \
         it was"
    )]
    NotDiscarded {
        /// Where the server is.
        server: Address,
        /// Which region.
        name: String,
        /// How long was waited.
        waited: Duration,
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
        "bytes {start}..{end} of “{name}” did not come from the memory server at {server} within {waited:?}; {done} bytes \
         before them were copied"
    )]
    Deadline {
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
        /// How long was waited.
        waited: Duration,
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
        "“{name}” is far memory of process {process}: a child that was forked has none of its own, and of its parent's what \
         far.children lets it see, by plain access; open far memory of its own for the rest"
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
    /// Bytes that may not be read or written now.
    #[error(
        "bytes {start}..{end} of “{name}” are {protection}, as FarMapping::protect was asked; change that first"
    )]
    Forbidden {
        /// Which object.
        name: String,
        /// Where they begin in the object.
        start: usize,
        /// Where they end.
        end: usize,
        /// Their protection.
        protection: PageProtection,
    },
    /// A range that is to begin at a page, and does not.
    #[error("byte {start} is not the first of a page of {page} bytes; protection is a matter of whole pages")]
    Unaligned {
        /// Where it begins in the object.
        start: usize,
        /// The size of a page.
        page: usize,
    },
    /// The kernel does not change what may be done to bytes.
    #[error(
        "the kernel does not change the protection of bytes of “{name}”: {source}; each change within an object is a mapping, of          which a process can have as many as vm.max_map_count says"
    )]
    NotProtected {
        /// Which object.
        name: String,
        /// Why not.
        #[source]
        source: std::io::Error,
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

impl FarError {
    /// Why the threads that answer faults cannot work.
    pub(super) fn of_threads(error: impl Into<ThreadsError>) -> Self {
        Self::Threads(Box::new(error.into()))
    }
}

fn list(nodes: &[u32]) -> String {
    let numbers: Vec<String> = nodes.iter().map(u32::to_string).collect();
    numbers.join(", ")
}
