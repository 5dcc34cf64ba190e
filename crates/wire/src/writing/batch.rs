//! Entries on their way, and what became of them.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::WriterId;
use crate::DecodeError;
use crate::access::AccessStatus;
use crate::error::{exact, split};

/// How many entries one batch brings at most.
pub const ENTRIES_MAX: u32 = 1024;
/// How many refusals one answer tells at most.
pub const REFUSALS_MAX: usize = 1024;

/// What stands before the entries of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Whose.
    pub writer: WriterId,
    /// By which attachment.
    pub attempt: u32,
    /// How many entries follow, 1 to [`ENTRIES_MAX`].
    pub count: u32,
    /// The number of the first; numbers begin at 1 and have no gaps.
    pub first: u64,
    /// What the writer knows to be settled: the target may forget refusals up to here.
    pub settled: u64,
}

/// What stands before the bytes of an entry. Bytes are padded, so that every entry begins at a multiple of 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// Which region, as it was presented.
    pub slot: u32,
    /// How many bytes follow.
    pub len: u32,
    /// Where they belong.
    pub offset: u64,
}

/// How far the target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Whose entries.
    pub writer: WriterId,
    /// The attachment that counts; a lower one has been superseded.
    pub attempt: u32,
    /// Every entry up to this number is settled: visible, or refused.
    pub through: u64,
    /// Those of them that were refused and of which the writer may not know yet.
    pub refusals: Vec<RefusedEntry>,
}

/// An entry of which nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedEntry {
    /// Its number.
    pub sequence: u64,
    /// Why.
    pub status: AccessStatus,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BatchBytes {
    writer: [u8; 16],
    attempt: U32,
    count: U32,
    first: U64,
    settled: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EntryBytes {
    slot: U32,
    len: U32,
    offset: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct DrainedBytes {
    writer: [u8; 16],
    attempt: U32,
    refusals: U32,
    through: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RefusalBytes {
    sequence: U64,
    status: U64,
}

const _: () = assert!(size_of::<BatchBytes>() == Batch::LEN);
const _: () = assert!(size_of::<EntryBytes>() == EntryHead::LEN);
const _: () = assert!(size_of::<DrainedBytes>() == Drained::FIXED_LEN);

impl Batch {
    /// Its size in bytes.
    pub const LEN: usize = 40;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let bytes = BatchBytes {
            writer: self.writer.0,
            attempt: self.attempt.into(),
            count: self.count.into(),
            first: self.first.into(),
            settled: self.settled.into(),
        };
        zerocopy::transmute!(bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote; the entries are read one by one.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &BatchBytes = exact("batch of entries", bytes)?;
        let count = bytes.count.get();
        if count == 0 || count > ENTRIES_MAX {
            return Err(DecodeError::BadValue { what: "number of entries", value: count.into() });
        }
        let (first, settled) = (bytes.first.get(), bytes.settled.get());
        if first == 0 || first.checked_add(count.into()).is_none() || settled >= first {
            return Err(DecodeError::BadValue { what: "number of the first entry", value: first });
        }
        Ok(Self { writer: WriterId(bytes.writer), attempt: bytes.attempt.get(), count, first, settled })
    }
}

impl EntryHead {
    /// Its size in bytes.
    pub const LEN: usize = 16;

    /// As it travels.
    #[inline]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let bytes = EntryBytes { slot: self.slot.into(), len: self.len.into(), offset: self.offset.into() };
        zerocopy::transmute!(bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote. The receiver checks the length against the bytes that are there.
    #[inline]
    pub fn decode(bytes: [u8; Self::LEN]) -> Self {
        let bytes: EntryBytes = zerocopy::transmute!(bytes);
        Self { slot: bytes.slot.get(), len: bytes.len.get(), offset: bytes.offset.get() }
    }

    /// How far it is from the head of an entry with `len` bytes to the next.
    #[inline]
    pub const fn stride(len: usize) -> usize {
        Self::LEN + len.next_multiple_of(8)
    }
}

impl Drained {
    /// The size of what stands before the refusals, in bytes.
    pub const FIXED_LEN: usize = 32;

    /// Appends it as it travels.
    ///
    /// # Panics
    /// If there are more than [`REFUSALS_MAX`] refusals.
    pub fn encode(&self, into: &mut Vec<u8>) {
        assert!(self.refusals.len() <= REFUSALS_MAX, "more refusals than an answer tells");
        let fixed = DrainedBytes {
            writer: self.writer.0,
            attempt: self.attempt.into(),
            refusals: (self.refusals.len() as u32).into(),
            through: self.through.into(),
        };
        into.extend_from_slice(fixed.as_bytes());
        for RefusedEntry { sequence, status } in &self.refusals {
            let refusal = RefusalBytes { sequence: (*sequence).into(), status: (*status as u64).into() };
            into.extend_from_slice(refusal.as_bytes());
        }
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (fixed, mut rest) = split::<DrainedBytes>("answer to a writer", bytes)?;
        let count = fixed.refusals.get() as usize;
        if count > REFUSALS_MAX {
            return Err(DecodeError::BadValue { what: "number of refusals", value: count as u64 });
        }
        let mut refusals = Vec::with_capacity(count);
        for _ in 0..count {
            let (refusal, behind) = split::<RefusalBytes>("refusal", rest)?;
            let status = status_of(refusal.status.get())?;
            refusals.push(RefusedEntry { sequence: refusal.sequence.get(), status });
            rest = behind;
        }
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes { what: "answer to a writer", extra: rest.len() });
        }
        let (attempt, through) = (fixed.attempt.get(), fixed.through.get());
        Ok(Self { writer: WriterId(fixed.writer), attempt, through, refusals })
    }
}

/// A reason to refuse; that it was done is none.
fn status_of(value: u64) -> Result<AccessStatus, DecodeError> {
    let known = [
        AccessStatus::OutOfBounds,
        AccessStatus::NoRight,
        AccessStatus::NotOpen,
        AccessStatus::Misaligned,
        AccessStatus::Busy,
    ];
    let found = known.into_iter().find(|status| *status as u64 == value);
    found.ok_or(DecodeError::BadValue { what: "reason of a refusal", value })
}
