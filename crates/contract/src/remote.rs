//! One-sided access to memory that the peer has exported.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outboard_limits::{explain, show_size};
use outboard_wire::{Grant, Rights};
use rustix::io::Errno;
use thiserror::Error;

use crate::memory::{Buffer, Mapping, Window};
use crate::{FrameSendError, LinkError};

/// The caller's own name for an operation; comes back in its [`Completion`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A region that is open on one link. On any other, and after it was closed, it is not open.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpenRegion {
    /// Where its link keeps it.
    pub index: u32,
    /// Tells this opening from all others that this process has made, on whatever link.
    pub serial: u64,
}

impl OpenRegion {
    /// A serial that no opening has had. For links.
    pub fn next_serial() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }
}

impl fmt::Debug for OpenRegion {
    /// Without the serial, which a run that is repeated in the same process does not repeat.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenRegion({})", self.index)
    }
}

/// What an operation brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOutcome {
    /// The region is open.
    Opened(OpenRegion),
    /// The bytes are in the buffer.
    Read,
    /// The bytes are visible at the target.
    Written,
    /// The word before the atomic.
    Old(u64),
}

/// The end of an operation.
#[derive(Clone, Debug)]
pub struct Completion {
    /// Which operation.
    pub token: Token,
    /// How it ended.
    pub result: Result<AccessOutcome, AccessError>,
}

/// Why one-sided access was refused. The link lives on unless it is `Lost`.
#[derive(Clone, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The span is not inside the region.
    #[error("bytes {offset}..{} are outside a region of {}", offset.saturating_add(*len), show_size(*size))]
    OutOfBounds {
        /// Where the access begins.
        offset: u64,
        /// How long it is.
        len: u64,
        /// How large the region is.
        size: u64,
    },
    /// The region was opened without this right, or its key does not carry it.
    #[error("no right to {needed} this region")]
    NoRight {
        /// What the access needs.
        needed: Rights,
    },
    /// The region is not open here, or the peer knows no such region, generation and key.
    #[error("the region is not open: unknown region, stale generation or wrong key")]
    NotOpen,
    /// Atomics work on words aligned to 8 bytes.
    #[error("offset {offset} of an atomic is not a multiple of 8")]
    Misaligned {
        /// Where the access begins.
        offset: u64,
    },
    /// One access moves at most `max` bytes on this link.
    #[error(
        "an access of {} is over this link's limit of {}",
        show_size(*len as u64),
        show_size(*max as u64)
    )]
    TooLong {
        /// How long it is.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// As much is under way as the link can hold; try again when some of it has ended.
    #[error("too many operations are under way")]
    Full,
    /// The peer has no room for another open region.
    #[error("the peer has no room for another open region")]
    Busy,
    /// The peer has no descriptor left by which it could hand the region over.
    #[error(
        "the owner of the region has no descriptors left to hand it over: raise its limit with `ulimit -n` or \
         LimitNOFILE="
    )]
    OwnerLacksDescriptors,
    /// The pages to be written have no memory yet, and the owner has none left for them.
    #[error(
        "the owner of the region has no memory left for what is written there: free regions, raise the limit of its container, \
         or have regions populated"
    )]
    OwnerLacksMemory,
    /// The region is open at the peer and cannot be mapped here.
    #[error("the region cannot be mapped: {}", explain(Errno::from_raw_os_error(*errno)))]
    Unmappable {
        /// Why, as the system numbers it.
        errno: i32,
    },
    /// The link is gone, and whether the operation was done is not known.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

outboard_wire::debug_with_causes!(AccessError);

#[doc(hidden)]
impl From<FrameSendError> for AccessError {
    fn from(error: FrameSendError) -> Self {
        match error {
            FrameSendError::Full => Self::Full,
            FrameSendError::TooLong { len, max } => Self::TooLong { len, max },
            FrameSendError::Lost(lost) => Self::Lost(lost),
        }
    }
}

/// What an access that ends at once does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImmediateAccess {
    /// Looks.
    Read,
    /// Changes.
    Write,
    /// Changes a word and looks at it.
    Atomic,
}

impl ImmediateAccess {
    /// The rights that it needs. An atomic writes, and it tells what was there.
    #[inline]
    pub const fn needs(self) -> Rights {
        match self {
            Self::Read => Rights::READ,
            Self::Write => Rights::WRITE,
            Self::Atomic => Rights::READ.and(Rights::WRITE),
        }
    }
}

/// Reads, writes and atomics on regions that the peer has exported.
///
/// Operations complete in any order. Aligned 8-byte words do not tear; there is no order between the words of
/// one operation. A frame sent after a write on the same link arrives after it. An `Err` means that the
/// operation was not begun, and no completion follows.
pub trait RemoteMemory {
    /// Opens a region for `rights`, presenting its grant. Completes with [`AccessOutcome::Opened`]. Atomics need the
    /// rights to read and to write; where access is [mapped](crate::OneSided::Mapped), every opening needs the
    /// right to read.
    fn open(&mut self, grant: &Grant, rights: Rights, token: Token) -> Result<(), AccessError>;

    /// Gives an open region back. Operations under way still complete.
    fn close_region(&mut self, region: OpenRegion);

    /// Reads into `len` bytes of `into` at `into_offset`. The bytes there are undefined until it completes, and stay
    /// so if it fails.
    fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        into: &Buffer,
        into_offset: usize,
        len: usize,
        token: Token,
    ) -> Result<(), AccessError>;

    /// Writes `data`, which is free for other use at once.
    fn write(
        &mut self,
        region: OpenRegion,
        offset: u64,
        data: Window<'_>,
        token: Token,
    ) -> Result<(), AccessError>;

    /// Stores `desired` in the word at `offset` if it holds `expected`.
    fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        expected: u64,
        desired: u64,
        token: Token,
    ) -> Result<(), AccessError>;

    /// Adds `addend` to the word at `offset`, wrapping around.
    fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
        token: Token,
    ) -> Result<(), AccessError>;

    /// Lets `use_it` at `span`, an offset and a length, of an open region where access is
    /// [mapped](crate::OneSided::Mapped), once it is judged as any operation is; there is no completion. Nothing, where
    /// accesses take longer.
    #[inline]
    fn at_once<T>(
        &mut self,
        _region: OpenRegion,
        _span: (u64, usize),
        _what: ImmediateAccess,
        _use_it: impl FnOnce(&Mapping) -> T,
    ) -> Option<Result<T, AccessError>> {
        None
    }

    /// Where an open region lies among this process's addresses, where access is [mapped](crate::OneSided::Mapped) and nothing
    /// is to be made of it but copies. It stays mapped as long as this is held, whatever becomes of the link. Nothing,
    /// where accesses take longer.
    fn mapping(&self, _region: OpenRegion) -> Option<Arc<Mapping>> {
        None
    }

    /// Hands out the operations that have ended since the last call. After a loss, those that were under way
    /// end with [`AccessError::Lost`].
    fn completions<F: FnMut(Completion)>(&mut self, sink: F) -> usize;
}
