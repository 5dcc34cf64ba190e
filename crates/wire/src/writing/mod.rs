//! Remote writes that are unloaded: how bytes and their destinations travel to the server that copies them home.
//!
//! A writer numbers what it unloads and keeps it until the target has settled it. A [`Batch`] brings entries with
//! consecutive numbers, each an [`EntryHead`] with its bytes behind it; a [`Drained`] says how far everything is settled,
//! and which entries were refused. Regions are made known once by [`Present`], so that an entry needs only a slot.
//!
//! A writer that lost touch with the target [attaches](AttachWriter) anew with a higher attempt. From then on the target refuses what
//! earlier attempts still bring, even by an agent; so nothing old is ever written over something newer.

mod batch;

pub use batch::{Batch, Drained, ENTRIES_MAX, EntryHead, REFUSALS_MAX, RefusedEntry};

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::exact;
use crate::{DecodeError, FrameKind, Generation, Incarnation, RegionId, RegionKey, Room};

/// The kind of an [`AttachWriter`].
pub const ATTACH: FrameKind = FrameKind::new(Room::Writing, 1);
/// The kind of a [`Present`]. It is not answered: a slot that opens nothing refuses every entry.
pub const PRESENT: FrameKind = FrameKind::new(Room::Writing, 2);
/// The kind of a [`Batch`].
pub const BATCH: FrameKind = FrameKind::new(Room::Writing, 3);
/// The kind of a [`Leave`]. It is not answered.
pub const LEAVE: FrameKind = FrameKind::new(Room::Writing, 4);
/// The kind of a [`Drained`], the answer to an [`AttachWriter`] and to a [`Batch`].
pub const DRAINED: FrameKind = FrameKind::new(Room::Writing, 32);

/// The kind of a [`Leave`] that comes back: the server cannot drain for this writer, or cannot any more.
pub const REFUSED: FrameKind = FrameKind::new(Room::Writing, 33);

/// How many regions one writer can have presented at a time.
pub const SLOTS_MAX: u32 = 1024;

/// A writer, by a number that it has drawn at random. A process that knows it can write as that writer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriterId(pub [u8; 16]);

impl core::fmt::Debug for WriterId {
    /// Not as a whole, since it is a secret.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "WriterId({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// Sent by a writer to the memory server, to begin an attempt. Answered by [`Drained`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachWriter {
    /// Who.
    pub writer: WriterId,
    /// Grows with every attachment of that writer.
    pub attempt: u32,
    /// Which life of a memory server owns the regions, so that an agent knows to whom to pass this on.
    pub server: Incarnation,
}

/// From a writer to the target: this slot means that region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Present {
    /// Who.
    pub writer: WriterId,
    /// Which attachment it belongs to.
    pub attempt: u32,
    /// What entries will say, below [`SLOTS_MAX`].
    pub slot: u32,
    /// The region.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
    /// A key to it.
    pub key: RegionKey,
}

/// From a writer to the target: everything is settled, forget me.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Who.
    pub writer: WriterId,
    /// Its latest attachment.
    pub attempt: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WhoBytes {
    writer: [u8; 16],
    attempt: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AttachBytes {
    who: WhoBytes,
    server: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PresentBytes {
    writer: [u8; 16],
    attempt: U32,
    slot: U32,
    region: U64,
    generation: U32,
    reserved: U32,
    key: [u8; 16],
}

const _: () = assert!(size_of::<AttachBytes>() == AttachWriter::LEN);
const _: () = assert!(size_of::<WhoBytes>() == Leave::LEN);
const _: () = assert!(size_of::<PresentBytes>() == Present::LEN);

impl AttachWriter {
    /// Its size in bytes.
    pub const LEN: usize = 32;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let who = WhoBytes { writer: self.writer.0, attempt: self.attempt.into(), reserved: U32::ZERO };
        zerocopy::transmute!(AttachBytes { who, server: self.server.0.into() })
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &AttachBytes = exact("attachment of a writer", bytes)?;
        reserved(bytes.who.reserved)?;
        let (writer, attempt) = (WriterId(bytes.who.writer), bytes.who.attempt.get());
        Ok(Self { writer, attempt, server: Incarnation(bytes.server.get()) })
    }
}

impl Leave {
    /// Its size in bytes.
    pub const LEN: usize = 24;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let reserved = U32::ZERO;
        zerocopy::transmute!(WhoBytes { writer: self.writer.0, attempt: self.attempt.into(), reserved })
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &WhoBytes = exact("parting of a writer", bytes)?;
        reserved(bytes.reserved)?;
        Ok(Self { writer: WriterId(bytes.writer), attempt: bytes.attempt.get() })
    }
}

impl Present {
    /// Its size in bytes.
    pub const LEN: usize = 56;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let bytes = PresentBytes {
            writer: self.writer.0,
            attempt: self.attempt.into(),
            slot: self.slot.into(),
            region: self.region.0.into(),
            generation: self.generation.0.into(),
            reserved: U32::ZERO,
            key: self.key.0,
        };
        zerocopy::transmute!(bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &PresentBytes = exact("region of a writer", bytes)?;
        reserved(bytes.reserved)?;
        let slot = bytes.slot.get();
        if slot >= SLOTS_MAX {
            return Err(DecodeError::BadValue { what: "slot of a writer", value: slot.into() });
        }
        Ok(Self {
            writer: WriterId(bytes.writer),
            attempt: bytes.attempt.get(),
            slot,
            region: RegionId(bytes.region.get()),
            generation: Generation(bytes.generation.get()),
            key: RegionKey(bytes.key),
        })
    }
}

fn reserved(word: U32) -> Result<(), DecodeError> {
    match word.get() {
        0 => Ok(()),
        value => {
            Err(DecodeError::BadValue { what: "unused field of a writing message", value: value.into() })
        }
    }
}

#[cfg(test)]
mod tests;
