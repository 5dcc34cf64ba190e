//! What ranks and agents say to each other so that agents carry messages.
//!
//! A rank shows an agent where its bundles lie ([`RankAttachment`]) and learns where the agent's parcels do ([`ParcelMemory`]). Agents
//! tell each other and their ranks whom they can reach ([`Announcement`]). A *parcel* ([`ParcelHead`]) is a range of
//! memory full of runs for one next hop, each a [`Run`](super::Run) followed by its bytes and zeros up to a multiple of
//! eight. The taker of a parcel says so by a [`TAKEN`] frame with the parcel's tag.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{FOLLOWS, Run};
use crate::error::{exact, split};
use crate::{DecodeError, FrameKind, Generation, Grant, JobId, Rank, RegionId, RegionKey, Rights, Room};

/// The kind of a [`RankAttachment`].
pub const ATTACH: FrameKind = FrameKind::new(Room::Routing, 4);
/// The kind of a [`ParcelMemory`].
pub const WELCOME: FrameKind = FrameKind::new(Room::Routing, 5);
/// The kind of an [`Announcement`].
pub const ANNOUNCE: FrameKind = FrameKind::new(Room::Routing, 6);
/// The kind of a parcel: its [`ParcelHead`], and its bytes if they follow.
pub const PARCEL: FrameKind = FrameKind::new(Room::Routing, 7);
/// The kind of the word that a parcel was taken; the tag says which, and there is nothing else to say.
pub const TAKEN: FrameKind = FrameKind::new(Room::Routing, 8);
/// The kind of an agent's refusal to carry messages for a rank: a text that says why.
pub const REFUSED: FrameKind = FrameKind::new(Room::Routing, 9);
/// The kind of a rank's word that its agent should not carry messages for it any more.
pub const DETACH: FrameKind = FrameKind::new(Room::Routing, 10);
/// The kind of a rank's question whether its agent is still at work.
pub const PING: FrameKind = FrameKind::new(Room::Routing, 11);
/// The kind of the answer to a [`PING`].
pub const PONG: FrameKind = FrameKind::new(Room::Routing, 12);
/// How long a refusal can be.
pub const REFUSED_MAX: usize = 512;

/// A job as agents know it: its number, and what only its ranks know of it. A process that does not know that is in another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey {
    /// Its number.
    pub job: JobId,
    /// A fingerprint of the incarnations of its ranks.
    pub roster: u64,
}

/// From a rank to its agent: carry my messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankAttachment {
    /// The job.
    pub job: JobKey,
    /// Which rank it is.
    pub rank: Rank,
    /// How many ranks the job has.
    pub ranks: u32,
    /// What opens the memory of its bundles.
    pub grant: Grant,
    /// How long its bundles are.
    pub bundle_bytes: u32,
    /// How long the parcels are that it takes.
    pub parcel_bytes: u32,
}

/// From an agent to a rank: what opens the memory of its parcels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParcelMemory {
    /// What opens it.
    pub grant: Grant,
}

/// From an agent to a rank or to another agent: messages for this rank can be given to me, or not any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The job.
    pub job: JobKey,
    /// Which rank.
    pub rank: Rank,
    /// Whether it can be reached.
    pub is_reachable: bool,
    /// Over how many other agents.
    pub hops: u8,
}

/// What stands before a parcel's bytes, or instead of them if the reader can fetch them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParcelHead {
    /// The job whose runs they are.
    pub job: JobKey,
    /// Where the bytes begin in the agent's memory; none if they follow.
    pub at: Option<u64>,
    /// How many bytes there are.
    pub len: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GrantBytes {
    region: U64,
    size: U64,
    key: RegionKey,
    generation: U32,
    rights: u8,
    reserved: [u8; 3],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AttachmentBytes {
    job: U64,
    roster: U64,
    rank: U32,
    ranks: U32,
    bundle_bytes: U32,
    parcel_bytes: U32,
    grant: GrantBytes,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AnnouncementBytes {
    job: U64,
    roster: U64,
    rank: U32,
    is_reachable: u8,
    hops: u8,
    reserved: [u8; 2],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ParcelBytes {
    job: U64,
    roster: U64,
    at: U64,
    len: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<AttachmentBytes>() == RankAttachment::LEN);
const _: () = assert!(size_of::<GrantBytes>() == ParcelMemory::LEN);
const _: () = assert!(size_of::<AnnouncementBytes>() == Announcement::LEN);
const _: () = assert!(size_of::<ParcelBytes>() == ParcelHead::LEN);

impl GrantBytes {
    fn of(grant: &Grant) -> Self {
        Self {
            region: U64::new(grant.region.0),
            size: U64::new(grant.size),
            key: grant.key,
            generation: U32::new(grant.generation.0),
            rights: grant.rights.bits(),
            reserved: [0; 3],
        }
    }

    fn grant(&self) -> Result<Grant, DecodeError> {
        Ok(Grant {
            region: RegionId(self.region.get()),
            generation: Generation(self.generation.get()),
            key: self.key,
            rights: Rights::from_bits(self.rights)?,
            size: self.size.get(),
        })
    }
}

fn key_of(job: U64, roster: U64) -> JobKey {
    JobKey { job: JobId(job.get()), roster: roster.get() }
}

impl RankAttachment {
    /// Its size in bytes.
    pub const LEN: usize = 72;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(AttachmentBytes {
            job: U64::new(self.job.job.0),
            roster: U64::new(self.job.roster),
            rank: U32::new(self.rank.0),
            ranks: U32::new(self.ranks),
            bundle_bytes: U32::new(self.bundle_bytes),
            parcel_bytes: U32::new(self.parcel_bytes),
            grant: GrantBytes::of(&self.grant),
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &AttachmentBytes = exact("an attachment of a rank", bytes)?;
        Ok(Self {
            job: key_of(bytes.job, bytes.roster),
            rank: Rank(bytes.rank.get()),
            ranks: bytes.ranks.get(),
            grant: bytes.grant.grant()?,
            bundle_bytes: bytes.bundle_bytes.get(),
            parcel_bytes: bytes.parcel_bytes.get(),
        })
    }
}

impl ParcelMemory {
    /// Its size in bytes.
    pub const LEN: usize = 40;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(GrantBytes::of(&self.grant))
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &GrantBytes = exact("an agent's welcome to a rank", bytes)?;
        Ok(Self { grant: bytes.grant()? })
    }
}

impl Announcement {
    /// Its size in bytes.
    pub const LEN: usize = 24;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(AnnouncementBytes {
            job: U64::new(self.job.job.0),
            roster: U64::new(self.job.roster),
            rank: U32::new(self.rank.0),
            is_reachable: self.is_reachable.into(),
            hops: self.hops,
            reserved: [0; 2],
        })
    }

    /// From bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &AnnouncementBytes = exact("an announcement of a rank", bytes)?;
        Ok(Self {
            job: key_of(bytes.job, bytes.roster),
            rank: Rank(bytes.rank.get()),
            is_reachable: bytes.is_reachable != 0,
            hops: bytes.hops,
        })
    }
}

impl ParcelHead {
    /// Its size in bytes.
    pub const LEN: usize = 32;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(ParcelBytes {
            job: U64::new(self.job.job.0),
            roster: U64::new(self.job.roster),
            at: U64::new(self.at.unwrap_or(FOLLOWS)),
            len: U32::new(self.len),
            reserved: U32::new(0),
        })
    }

    /// From the beginning of a frame that is `frame_len` bytes long in all.
    pub fn decode(bytes: &[u8], frame_len: usize) -> Result<Self, DecodeError> {
        let (bytes, _): (&ParcelBytes, _) = split("a parcel of runs", bytes)?;
        let at = Some(bytes.at.get()).filter(|at| *at != FOLLOWS);
        let follow = if at.is_some() { 0 } else { bytes.len.get() as usize };
        if frame_len != Self::LEN + follow {
            return Err(DecodeError::BadValue {
                what: "length of a parcel's frame",
                value: frame_len as u64,
            });
        }
        Ok(Self { job: key_of(bytes.job, bytes.roster), at, len: bytes.len.get() })
    }
}

/// How many bytes a run takes in a parcel.
pub const fn run_in_parcel(len: usize) -> usize {
    Run::LEN + len.next_multiple_of(8)
}

/// The next run of a parcel of which `bytes` begins with what has not been looked at, `rest` bytes in all.
pub fn next_in_parcel(bytes: &[u8], rest: usize) -> Result<Run, DecodeError> {
    let claimed = bytes.get(Run::LEN - 8..Run::LEN - 4).and_then(|len| len.try_into().ok());
    let len = claimed.map_or(0, u32::from_le_bytes) as usize;
    let run = Run::decode(bytes, Run::LEN + len)?;
    if run.at.is_some() || run_in_parcel(len) > rest {
        return Err(DecodeError::BadValue { what: "length of a run in a parcel", value: len as u64 });
    }
    Ok(run)
}
