//! The settings of far memory in one process, and why they may not do.

use std::io;
use std::time::Duration;

use outboard_limits::show_size;
use thiserror::Error;

use super::chunks::SEATS_MIN;
use super::jobs::CHUNK_MAX;

/// The end of an access to bytes that are lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// It raises SIGBUS, which a handler may survive.
    Signal,
    /// The process ends with a line on the standard error and exit code 1.
    Exit,
}

/// The settings of far memory in one process.
#[derive(Clone, Debug)]
pub struct PagingConfig {
    /// How many bytes of far memory may be here at once, all regions together, until another size is set.
    pub buffer: usize,
    /// How large the buffer may become; default as large as it is. Addresses and records are kept for so many bytes.
    pub buffer_max: usize,
    /// How many threads answer faults; each has links of its own, and a stack.
    pub threads: usize,
    /// How many memory servers there are, to each of which every thread has a link; default 1.
    pub servers: usize,
    /// The largest chunk that is expected, which decides into how many shards the buffer is divided; default 64 KiB.
    pub chunk: usize,
    /// How many bytes are asked for ahead of a scan, at most; default 4 MiB, never more than an eighth of the
    /// buffer. Zero turns reading ahead off.
    pub ahead: usize,
    /// How long a lost server may stay away before accesses that need it cannot be served; default 10 s.
    pub grace: Duration,
    /// The end of those accesses; default SIGBUS.
    pub on_loss: OnLoss,
    /// Whether a fault thread may stay awake for a moment after a fault, where that turns out to be faster; default not.
    pub may_look: bool,
    /// How many touches are recorded at most, eight bytes each; default none.
    pub recorded: usize,
    /// Whether a child that is forked sees far memory as it was then; default not.
    pub snapshots: bool,
}

impl PagingConfig {
    /// The defaults, with a buffer of this many bytes and so many threads.
    pub fn new(buffer: usize, threads: usize) -> Self {
        Self {
            buffer,
            buffer_max: buffer,
            threads,
            servers: 1,
            chunk: 64 << 10,
            ahead: 4 << 20,
            grace: Duration::from_secs(10),
            on_loss: OnLoss::Signal,
            may_look: false,
            recorded: 0,
            snapshots: false,
        }
    }

    /// The smallest buffer for chunks of this many bytes.
    pub fn buffer_min(chunk: usize) -> usize {
        chunk.saturating_mul(SEATS_MIN)
    }

    /// Whether there can be far memory with these settings.
    pub fn check(&self, page_bytes: usize) -> Result<(), PagingError> {
        let Self { buffer, chunk, .. } = *self;
        check_chunk(chunk, page_bytes)?;
        match Self::buffer_min(chunk) {
            needed if buffer < needed => Err(PagingError::BufferTooSmall { buffer, chunk, needed }),
            _ if buffer > self.buffer_max => {
                Err(PagingError::BufferTooLarge { buffer, most: self.buffer_max })
            }
            _ => Ok(()),
        }
    }

    /// Into how many shards the buffer is divided: enough for the threads, but each with room for many chunks.
    pub(super) fn shards(&self) -> usize {
        (self.buffer / (16 * self.chunk)).clamp(1, 2 * self.threads)
    }
}

pub(super) fn check_chunk(bytes: usize, min: usize) -> Result<(), PagingError> {
    if bytes.is_power_of_two() && (min..=CHUNK_MAX).contains(&bytes) {
        Ok(())
    } else {
        Err(PagingError::BadChunk { bytes, min })
    }
}

/// Why far memory cannot be had.
#[derive(Error)]
#[non_exhaustive]
pub enum PagingError {
    /// The kernel gives no userfaultfd.
    #[error("the kernel gives this process no userfaultfd ({0}); `outboard doctor` says how to get one")]
    NoUserfaultfd(#[source] io::Error),
    /// The system refused memory or addresses.
    #[error("{what}: {source}")]
    NoMemory {
        /// The purpose.
        what: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Chunks must be powers of two from a page to 2 MiB.
    #[error(
        "a chunk of {} will not do: it must be a power of two from {} to 2 MiB",
        show_size(*bytes as u64),
        show_size(*min as u64)
    )]
    BadChunk {
        /// The size that was asked for.
        bytes: usize,
        /// The smallest.
        min: usize,
    },
    /// The buffer has no room for the least that a region needs.
    #[error(
        "a buffer of {} is too small for chunks of {}: it needs at least {}; enlarge the buffer or choose smaller chunks",
        show_size(*buffer as u64),
        show_size(*chunk as u64),
        show_size(*needed as u64)
    )]
    BufferTooSmall {
        /// How large it is.
        buffer: usize,
        /// The size of chunks.
        chunk: usize,
        /// The least.
        needed: usize,
    },
    /// The buffer was to grow beyond what it was made for.
    #[error(
        "a buffer of {} is more than the {} that this far memory was opened for; open it with a larger buffer_max",
        show_size(*buffer as u64),
        show_size(*most as u64)
    )]
    BufferTooLarge {
        /// How large it was to be.
        buffer: usize,
        /// The most.
        most: usize,
    },
    /// The buffer was to shrink below what is promised to stay there.
    #[error(
        "a buffer of {} is too small while {} are pinned: it needs at least {}; unpin some, or leave it larger",
        show_size(*buffer as u64),
        show_size(*pinned as u64),
        show_size(*needed as u64)
    )]
    BufferPinned {
        /// How large it was to be.
        buffer: usize,
        /// How much is pinned in the part of the buffer that has most.
        pinned: usize,
        /// The least.
        needed: usize,
    },
    /// A region without bytes.
    #[error("a region needs at least one byte")]
    Empty,
    /// The region is here already, and one of the two would write.
    #[error(
        "region “{name}” is open in this process already: it has one writer or many readers; drop the other object first"
    )]
    AlreadyOpen {
        /// Its name for people.
        name: String,
    },
    /// Parts that are not those of one object.
    #[error("what the memory servers have of “{name}” does not fit together: it was not striped like this")]
    NotWhole {
        /// Its name for people.
        name: String,
    },
    /// Stores that are made while a chunk leaves would be lost.
    #[error(
        "this kernel can neither move pages nor write-protect them, so far memory can only be read; open regions to read \
         them, or use Linux 5.7 or later"
    )]
    CannotWrite,
}

outboard_wire::debug_with_causes!(PagingError);
