//! What is answered about far memory.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::request::CacheMode;
use super::{
    ATTACH, ATTACHED, DISCARD, FENCE, FENCED, FETCH, FETCHED, FIXED_LEN_MAX, REFUSED, WRITE_BACK, WRITTEN,
    data_is, unused,
};
use crate::error::exact;
use crate::text::Text;
use crate::{DecodeError, FixedPart, FrameKind, Generation, Grant, RegionId, RegionKey, Rights};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum PagingStatus {
    /// It was done.
    Done = 0,
    /// The span is not inside the region.
    OutOfBounds = 1,
    /// The key or the attachment does not carry this right.
    NoRight = 2,
    /// No such region in that generation, or the wrong key, or it is not attached: a stranger is not told which.
    NotOpen = 3,
    /// The write epoch has passed; the bytes were not written.
    StaleEpoch = 4,
    /// The agent has lost the server.
    Unavailable = 5,
    /// Too much is under way; ask again.
    Busy = 6,
    /// The request could not be read.
    Malformed = 7,
    /// The server has no room left for what was never written before; the bytes were not written. Since version 2.
    NoRoom = 8,
}

/// Where the bytes of a fetch came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FetchSource {
    /// The agent had them.
    Hit = 0,
    /// The agent had asked for them ahead, but they were still on their way.
    Late = 1,
    /// The agent asked the server for them, and keeps them.
    Miss = 2,
    /// The agent asked the server for them, and does not keep them.
    Uncached = 3,
}

/// Why an agent does not serve a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum AttachRefusal {
    /// The server knows no such region in that generation with that key.
    NotOpen = 1,
    /// The key does not carry the rights that were asked for.
    NoRight = 2,
    /// The agent has no link to that life of that server.
    NoServer = 3,
    /// There is no room left for it.
    NoRoom = 4,
    /// The request makes no sense.
    BadRequest = 5,
}

/// What is answered about far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingReply {
    /// To an attach: from now on fetches and write-backs are served.
    Attached {
        /// How the region is cached.
        mode: CacheMode,
        /// What opens the agent's own copy of a statically cached region on this link.
        static_grant: Option<Grant>,
    },
    /// To an attach: no.
    Refused {
        /// Why, for programs.
        reason: AttachRefusal,
        /// Why, for people, and what to do about it.
        detail: Text<126>,
    },
    /// To a fetch. The bytes follow if it is done, else nothing.
    Fetched {
        /// How it went.
        status: PagingStatus,
        /// Where the bytes came from.
        source: FetchSource,
        /// How many bytes follow.
        length: u32,
    },
    /// To a write-back, or a discard.
    Written {
        /// How it went.
        status: PagingStatus,
        /// The region's write epoch, as far as it is known; else zero.
        epoch: u64,
    },
    /// To a fence.
    Fenced {
        /// How it went.
        status: PagingStatus,
        /// The epoch that has begun; zero if none has.
        epoch: u64,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AttachedBytes {
    region: U64,
    size: U64,
    key: RegionKey,
    generation: U32,
    rights: u8,
    mode: u8,
    has_grant: u8,
    reserved: [u8; 9],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RefusedBytes {
    reason: U16,
    detail: Text<126>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FetchedBytes {
    status: U32,
    source: U32,
    length: U32,
    reserved: [u8; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EpochBytes {
    epoch: U64,
    status: U32,
    reserved: [u8; 4],
}

const _: () = assert!(size_of::<AttachedBytes>() == 48);
const _: () = assert!(size_of::<RefusedBytes>() == super::FIXED_LEN_MAX);
const _: () = assert!(size_of::<FetchedBytes>() == PagingReply::FETCHED_LEN);
const _: () = assert!(size_of::<EpochBytes>() == 16);

impl PagingReply {
    /// How long the part of [`PagingReply::Fetched`] before the data is.
    pub const FETCHED_LEN: usize = 16;

    /// How long the fixed part of a reply of this kind is; `None` if it is no reply.
    pub const fn fixed_len(kind: FrameKind) -> Option<usize> {
        match kind {
            ATTACHED => Some(size_of::<AttachedBytes>()),
            REFUSED => Some(size_of::<RefusedBytes>()),
            FETCHED => Some(size_of::<FetchedBytes>()),
            WRITTEN | FENCED => Some(size_of::<EpochBytes>()),
            _ => None,
        }
    }

    /// A no to an attach, with what to tell people.
    pub fn refused(reason: AttachRefusal, detail: &str) -> Self {
        Self::Refused { reason, detail: Text::new(detail) }
    }

    /// A no to a fetch.
    pub const fn not_fetched(status: PagingStatus) -> Self {
        Self::Fetched { status, source: FetchSource::Uncached, length: 0 }
    }

    /// The answer to a request of this kind that could not be read; `None` if it is no request, or one that is not
    /// answered.
    pub fn to_malformed(kind: FrameKind) -> Option<Self> {
        let status = PagingStatus::Malformed;
        match kind {
            ATTACH => Some(Self::refused(AttachRefusal::BadRequest, "the request could not be read")),
            FETCH => Some(Self::not_fetched(status)),
            WRITE_BACK | DISCARD => Some(Self::Written { status, epoch: 0 }),
            FENCE => Some(Self::Fenced { status, epoch: 0 }),
            _ => None,
        }
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Attached { .. } => ATTACHED,
            Self::Refused { .. } => REFUSED,
            Self::Fetched { .. } => FETCHED,
            Self::Written { .. } => WRITTEN,
            Self::Fenced { .. } => FENCED,
        }
    }

    /// The fixed part.
    pub fn encode(&self) -> FixedPart<FIXED_LEN_MAX> {
        match *self {
            Self::Attached { mode, static_grant } => FixedPart::new(&AttachedBytes::new(mode, static_grant)),
            Self::Refused { reason, detail } => {
                FixedPart::new(&RefusedBytes { reason: (reason as u16).into(), detail })
            }
            Self::Fetched { status, source, length } => FixedPart::new(&FetchedBytes {
                status: (status as u32).into(),
                source: (source as u32).into(),
                length: length.into(),
                reserved: [0; 4],
            }),
            Self::Written { status, epoch } | Self::Fenced { status, epoch } => FixedPart::new(&EpochBytes {
                epoch: epoch.into(),
                status: (status as u32).into(),
                reserved: [0; 4],
            }),
        }
    }

    /// Reads the fixed part of a frame of this kind that has `data_len` bytes after it.
    pub fn decode(kind: FrameKind, fixed: &[u8], data_len: usize) -> Result<Self, DecodeError> {
        let reply = match kind {
            ATTACHED => exact::<AttachedBytes>("attached", fixed)?.read()?,
            REFUSED => {
                let bytes: &RefusedBytes = exact("refused", fixed)?;
                bytes.detail.check("detail of a refusal")?;
                Self::Refused { reason: bytes.reason.get().try_into()?, detail: bytes.detail }
            }
            FETCHED => exact::<FetchedBytes>("fetched", fixed)?.read()?,
            WRITTEN | FENCED => {
                let bytes: &EpochBytes = exact("epoch", fixed)?;
                unused("reserved bytes of an epoch", &bytes.reserved)?;
                let (status, epoch) = (bytes.status.get().try_into()?, bytes.epoch.get());
                if kind == WRITTEN { Self::Written { status, epoch } } else { Self::Fenced { status, epoch } }
            }
            _ => return Err(DecodeError::BadValue { what: "paging reply kind", value: kind.0.into() }),
        };
        data_is(if let Self::Fetched { length, .. } = reply { length } else { 0 }, data_len)?;
        Ok(reply)
    }
}

/// What stands where there is no grant; all of it must be zero.
const NO_GRANT: Grant = Grant {
    region: RegionId(0),
    generation: Generation(0),
    key: RegionKey([0; 16]),
    rights: Rights::NONE,
    size: 0,
};

impl AttachedBytes {
    fn new(mode: CacheMode, static_grant: Option<Grant>) -> Self {
        let grant = static_grant.unwrap_or(NO_GRANT);
        Self {
            region: grant.region.0.into(),
            size: grant.size.into(),
            key: grant.key,
            generation: grant.generation.0.into(),
            rights: grant.rights.bits(),
            mode: mode as u8,
            has_grant: static_grant.is_some().into(),
            reserved: [0; 9],
        }
    }

    fn read(&self) -> Result<PagingReply, DecodeError> {
        unused("reserved bytes of an attached", &self.reserved)?;
        let grant = Grant {
            region: RegionId(self.region.get()),
            generation: Generation(self.generation.get()),
            key: self.key,
            rights: Rights::from_bits(self.rights)?,
            size: self.size.get(),
        };
        let static_grant = match self.has_grant {
            0 if grant == NO_GRANT => None,
            1 => Some(grant),
            flag => return Err(DecodeError::BadValue { what: "flag of a static grant", value: flag.into() }),
        };
        Ok(PagingReply::Attached { mode: self.mode.try_into()?, static_grant })
    }
}

impl FetchedBytes {
    fn read(&self) -> Result<PagingReply, DecodeError> {
        unused("reserved bytes of a fetched", &self.reserved)?;
        let (status, length) = (PagingStatus::try_from(self.status.get())?, self.length.get());
        // What is done has brought something, and what is not has brought nothing.
        if (status == PagingStatus::Done) != (length > 0) {
            return Err(DecodeError::BadValue { what: "length of a fetched", value: length.into() });
        }
        Ok(PagingReply::Fetched { status, source: self.source.get().try_into()?, length })
    }
}

impl TryFrom<u32> for PagingStatus {
    type Error = DecodeError;

    fn try_from(value: u32) -> Result<Self, DecodeError> {
        match value {
            0 => Ok(Self::Done),
            1 => Ok(Self::OutOfBounds),
            2 => Ok(Self::NoRight),
            3 => Ok(Self::NotOpen),
            4 => Ok(Self::StaleEpoch),
            5 => Ok(Self::Unavailable),
            6 => Ok(Self::Busy),
            7 => Ok(Self::Malformed),
            8 => Ok(Self::NoRoom),
            _ => Err(DecodeError::BadValue { what: "paging status", value: value.into() }),
        }
    }
}

impl TryFrom<u32> for FetchSource {
    type Error = DecodeError;

    fn try_from(value: u32) -> Result<Self, DecodeError> {
        match value {
            0 => Ok(Self::Hit),
            1 => Ok(Self::Late),
            2 => Ok(Self::Miss),
            3 => Ok(Self::Uncached),
            _ => Err(DecodeError::BadValue { what: "source of a fetch", value: value.into() }),
        }
    }
}

impl TryFrom<u16> for AttachRefusal {
    type Error = DecodeError;

    fn try_from(value: u16) -> Result<Self, DecodeError> {
        match value {
            1 => Ok(Self::NotOpen),
            2 => Ok(Self::NoRight),
            3 => Ok(Self::NoServer),
            4 => Ok(Self::NoRoom),
            5 => Ok(Self::BadRequest),
            _ => Err(DecodeError::BadValue { what: "refusal of an attach", value: value.into() }),
        }
    }
}
