//! Fire-and-forget messages: how bundles of them travel from rank to rank.
//!
//! A *bundle* is a range of memory full of messages, each behind eight bytes that say how long it is and for whom
//! ([`MessageHead`]); where all are of one size, that is said once instead ([`Form::Equal`]). A *run* is what travels: the messages of one bundle for one rank, numbered by their source for
//! each destination and message space ([`Run`]). Between processes that share memory only the [`Run`] travels, and the reader fetches the
//! bytes from the source's memory; elsewhere they follow it. A destination tells the source how far it has everything
//! ([`Ack`]); until then the source keeps it, even if an agent carries it.

mod agents;

pub use agents::{
    ANNOUNCE, ATTACH, Announcement, DETACH, JobKey, PARCEL, PING, PONG, ParcelHead, ParcelMemory, REFUSED,
    REFUSED_MAX, RankAttachment, TAKEN, WELCOME, next_in_parcel, run_in_parcel,
};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{exact, split};
use crate::{DecodeError, FrameKind, Generation, Grant, Rank, RegionId, RegionKey, Rights, Room};

/// The kind of a [`Greeting`].
pub const GREETING: FrameKind = FrameKind::new(Room::Routing, 1);
/// The kind of a [`Run`].
pub const RUN: FrameKind = FrameKind::new(Room::Routing, 2);
/// The kind of an [`Ack`].
pub const ACK: FrameKind = FrameKind::new(Room::Routing, 3);

/// The eight bytes before every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// How many bytes the message has.
    pub size: u32,
    /// For whom it is.
    pub rank: Rank,
}

impl MessageHead {
    /// Its size in bytes.
    pub const LEN: usize = 8;

    /// As one word, as it lies in memory on a little-endian machine.
    #[inline]
    pub const fn word(self) -> u64 {
        self.size as u64 | (self.rank.0 as u64) << 32
    }

    /// What a word says.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self { size: word as u32, rank: Rank((word >> 32) as u32) }
    }

    /// How far it is from this message to the next: heads are aligned to eight bytes.
    #[inline]
    pub const fn stride(size: usize) -> usize {
        Self::LEN + size.next_multiple_of(8)
    }
}

/// The first frame on a link between ranks: where the sender's bundles lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// What opens the memory of its bundles.
    pub grant: Grant,
    /// How many ranks it believes that the job has.
    pub ranks: u32,
    /// How long its bundles are.
    pub bundle_bytes: u32,
}

/// What the bytes of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whole messages, one after the other, each behind its [`MessageHead`].
    Messages,
    /// Whole messages of one size, which is not zero: without heads, each as long as the next multiple of eight.
    Equal(u16),
    /// A [`Fragment`] and a part of one message that is too long for a bundle.
    Fragment,
    /// Nothing: its source has everything before its number of what the destination has sent to it. By agents
    /// acknowledgements travel like this.
    Ack,
}

impl Form {
    /// How far it is from one message of this size to the next.
    #[inline]
    pub const fn stride(size: u16) -> usize {
        (size as usize).next_multiple_of(8)
    }

    fn encode(self) -> (u8, u16) {
        match self {
            Self::Messages => (0, 0),
            Self::Fragment => (1, 0),
            Self::Ack => (2, 0),
            Self::Equal(size) => (3, size),
        }
    }

    fn decode(form: u8, size: u16, len: u32) -> Result<Self, DecodeError> {
        match form {
            0 => Ok(Self::Messages),
            1 => Ok(Self::Fragment),
            2 => Ok(Self::Ack),
            3 if size > 0 && (len as usize).is_multiple_of(Self::stride(size)) => Ok(Self::Equal(size)),
            other => Err(DecodeError::BadValue { what: "form of a run", value: other.into() }),
        }
    }
}

/// Messages of one source for one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose they are.
    pub source: Rank,
    /// For whom they are.
    pub destination: Rank,
    /// Which of the source's runs for this destination and space it is, counted from zero.
    pub number: u64,
    /// Where the bytes begin in the source's memory; none if they follow.
    pub at: Option<u64>,
    /// How many bytes there are.
    pub len: u32,
    /// To which message space they belong.
    pub space: u8,
    /// What they are.
    pub form: Form,
}

/// From a destination to a source: I have all runs of a message space before this one. Spaces are numbered apart, because
/// the runs of one may have to wait for those of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Whose runs.
    pub source: Rank,
    /// Who has them.
    pub destination: Rank,
    /// The first that is missing.
    pub missing: u64,
    /// Of which space.
    pub space: u8,
}

/// What stands before a part of a long message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Which of the source's long messages for this destination it is.
    pub message: u64,
    /// How long the whole message is.
    pub total: u64,
    /// Where this part begins in it.
    pub offset: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GreetingBytes {
    region: U64,
    size: U64,
    key: RegionKey,
    generation: U32,
    ranks: U32,
    bundle_bytes: U32,
    rights: u8,
    reserved: [u8; 3],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RunBytes {
    source: U32,
    destination: U32,
    number: U64,
    at: U64,
    len: U32,
    space: u8,
    form: u8,
    size: U16,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AckBytes {
    source: U32,
    destination: U32,
    missing: U64,
    space: u8,
    reserved: [u8; 7],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FragmentBytes {
    message: U64,
    total: U64,
    offset: U64,
}

const _: () = assert!(size_of::<GreetingBytes>() == Greeting::LEN);
const _: () = assert!(size_of::<RunBytes>() == Run::LEN);
const _: () = assert!(size_of::<AckBytes>() == Ack::LEN);
const _: () = assert!(size_of::<FragmentBytes>() == Fragment::LEN);

/// Stands where an offset would stand if the bytes follow.
const FOLLOWS: u64 = u64::MAX;

impl Greeting {
    /// Its size in bytes.
    pub const LEN: usize = 48;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(GreetingBytes {
            region: U64::new(self.grant.region.0),
            size: U64::new(self.grant.size),
            key: self.grant.key,
            generation: U32::new(self.grant.generation.0),
            ranks: U32::new(self.ranks),
            bundle_bytes: U32::new(self.bundle_bytes),
            rights: self.grant.rights.bits(),
            reserved: [0; 3],
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &GreetingBytes = exact("a greeting between ranks", bytes)?;
        Ok(Self {
            grant: Grant {
                region: RegionId(bytes.region.get()),
                generation: Generation(bytes.generation.get()),
                key: bytes.key,
                rights: Rights::from_bits(bytes.rights)?,
                size: bytes.size.get(),
            },
            ranks: bytes.ranks.get(),
            bundle_bytes: bytes.bundle_bytes.get(),
        })
    }
}

impl Run {
    /// Its size in bytes.
    pub const LEN: usize = 32;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let (form, size) = self.form.encode();
        zerocopy::transmute!(RunBytes {
            source: U32::new(self.source.0),
            destination: U32::new(self.destination.0),
            number: U64::new(self.number),
            at: U64::new(self.at.unwrap_or(FOLLOWS)),
            len: U32::new(self.len),
            space: self.space,
            form,
            size: U16::new(size),
        })
    }

    /// From the beginning of a frame that is `frame_len` bytes long in all.
    pub fn decode(bytes: &[u8], frame_len: usize) -> Result<Self, DecodeError> {
        let (bytes, _): (&RunBytes, _) = split("a run of messages", bytes)?;
        let form = Form::decode(bytes.form, bytes.size.get(), bytes.len.get())?;
        let at = Some(bytes.at.get()).filter(|at| *at != FOLLOWS);
        let follow = if at.is_some() { 0 } else { bytes.len.get() as usize };
        if frame_len != Self::LEN + follow {
            return Err(DecodeError::BadValue { what: "length of a run's frame", value: frame_len as u64 });
        }
        Ok(Self {
            source: Rank(bytes.source.get()),
            destination: Rank(bytes.destination.get()),
            number: bytes.number.get(),
            at,
            len: bytes.len.get(),
            space: bytes.space,
            form,
        })
    }
}

impl Ack {
    /// Its size in bytes.
    pub const LEN: usize = 24;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(AckBytes {
            source: U32::new(self.source.0),
            destination: U32::new(self.destination.0),
            missing: U64::new(self.missing),
            space: self.space,
            reserved: [0; 7],
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &AckBytes = exact("an acknowledgement of runs", bytes)?;
        Ok(Self {
            source: Rank(bytes.source.get()),
            destination: Rank(bytes.destination.get()),
            missing: bytes.missing.get(),
            space: bytes.space,
        })
    }
}

impl Fragment {
    /// Its size in bytes.
    pub const LEN: usize = 24;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(FragmentBytes {
            message: U64::new(self.message),
            total: U64::new(self.total),
            offset: U64::new(self.offset),
        })
    }

    /// From the beginning of a run's bytes; what follows is the part.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (fragment, part): (&FragmentBytes, _) = split("a fragment of a message", bytes)?;
        let (total, offset) = (fragment.total.get(), fragment.offset.get());
        if offset.checked_add(part.len() as u64).is_none_or(|end| end > total) {
            return Err(DecodeError::BadValue { what: "place of a fragment", value: offset });
        }
        Ok((Self { message: fragment.message.get(), total, offset }, part))
    }
}

#[cfg(test)]
mod tests;
