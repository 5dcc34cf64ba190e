//! What is asked about far memory.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ATTACH, DETACH, DISCARD, FENCE, FETCH, FIXED_LEN_MAX, WRITE_BACK, data_is, unused};
use crate::error::exact;
use crate::{
    CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, DecodeError, FixedPart, FrameKind, Generation, Grant, Incarnation,
    RegionId, RegionKey, Rights,
};

/// How an agent keeps a region's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CacheMode {
    /// Not at all: every fetch goes to the server.
    Off = 0,
    /// The whole region, loaded once.
    Static = 1,
    /// What was fetched lately, and what is expected next.
    Dynamic = 2,
    /// As [`Dynamic`](Self::Dynamic) while that pays, else as [`Off`](Self::Off).
    Auto = 3,
}

/// How soon the bytes of a fetch are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Urgency {
    /// A thread waits for them.
    Demand = 0,
    /// They are read ahead.
    Background = 1,
}

/// From an application to its agent: I will fetch and write back chunks of this region through you. Answered by
/// [`PagingReply::Attached`](super::PagingReply::Attached) or [`PagingReply::Refused`](super::PagingReply::Refused).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachRegion {
    /// What opens the region at its server.
    pub grant: Grant,
    /// Which life of the memory server owns it.
    pub server: Incarnation,
    /// The unit of movement, as a power of two.
    pub chunk_log2: u8,
    /// What will be done with it.
    pub rights: Rights,
    /// How it should be cached.
    pub mode: CacheMode,
    /// The write epoch of the application's lease.
    pub epoch: u64,
}

/// From an application to its agent: I no longer need this region. Not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetachRegion {
    /// Which region.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
}

/// From an application to its agent: send me these bytes of a region that I have attached. Answered by
/// [`PagingReply::Fetched`](super::PagingReply::Fetched).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Which region.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
    /// Where the bytes begin.
    pub offset: u64,
    /// How many there are, at least one.
    pub length: u32,
    /// How soon they are needed.
    pub urgency: Urgency,
}

/// From an application to its agent, from there to the server, or from the application to the server at once: put
/// the bytes that follow there. Answered by [`PagingReply::Written`](super::PagingReply::Written) when the *server* has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteBack {
    /// Which region.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
    /// A key to it that allows writing.
    pub key: RegionKey,
    /// The write epoch in which the bytes were written.
    pub epoch: u64,
    /// Where the bytes begin.
    pub offset: u64,
    /// How many follow, at least one.
    pub length: u32,
}

/// From an application to the server: refuse all write-backs of the epochs until now. Answered by
/// [`PagingReply::Fenced`](super::PagingReply::Fenced).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// Which region.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
    /// A key to it that allows writing.
    pub key: RegionKey,
}

/// A request about far memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingRequest {
    /// Serve me this region.
    Attach(AttachRegion),
    /// I no longer need it.
    Detach(DetachRegion),
    /// Send me these bytes.
    Fetch(Fetch),
    /// Put the bytes that follow there.
    WriteBack(WriteBack),
    /// Refuse what was written back before now.
    Fence(Fence),
    /// From an application to the server: these bytes are zero from now on, as if zeros were written back, and need no memory.
    /// Whole pages, no more than [`WriteBack::DISCARD_MAX`]. Answered as a write-back; no data follows.
    Discard(WriteBack),
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AttachBytes {
    region: U64,
    size: U64,
    key: RegionKey,
    server: U64,
    epoch: U64,
    generation: U32,
    held: u8,
    rights: u8,
    chunk_log2: u8,
    mode: u8,
    reserved: [u8; 8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct DetachBytes {
    region: U64,
    generation: U32,
    reserved: [u8; 4],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FetchBytes {
    region: U64,
    offset: U64,
    generation: U32,
    length: U32,
    urgency: u8,
    reserved: [u8; 7],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct WriteBackBytes {
    region: U64,
    offset: U64,
    key: RegionKey,
    epoch: U64,
    generation: U32,
    length: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FenceBytes {
    region: U64,
    generation: U32,
    reserved: [u8; 4],
    key: RegionKey,
}

const _: () = assert!(size_of::<AttachBytes>() == 64);
const _: () = assert!(size_of::<DetachBytes>() == 16);
const _: () = assert!(size_of::<FetchBytes>() == 32);
const _: () = assert!(size_of::<WriteBackBytes>() == WriteBack::FIXED_LEN);
const _: () = assert!(size_of::<FenceBytes>() == 32);

impl PagingRequest {
    /// The kind of a [`Discard`](Self::Discard), which a peer of an older version does not know.
    pub const DISCARD: FrameKind = DISCARD;

    /// How long the fixed part of a request of this kind is; `None` if it is no request.
    pub const fn fixed_len(kind: FrameKind) -> Option<usize> {
        match kind {
            ATTACH => Some(size_of::<AttachBytes>()),
            DETACH => Some(size_of::<DetachBytes>()),
            FETCH => Some(size_of::<FetchBytes>()),
            WRITE_BACK | DISCARD => Some(size_of::<WriteBackBytes>()),
            FENCE => Some(size_of::<FenceBytes>()),
            _ => None,
        }
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Attach(_) => ATTACH,
            Self::Detach(_) => DETACH,
            Self::Fetch(_) => FETCH,
            Self::WriteBack(_) => WRITE_BACK,
            Self::Fence(_) => FENCE,
            Self::Discard(_) => DISCARD,
        }
    }

    /// The fixed part.
    pub fn encode(&self) -> FixedPart<FIXED_LEN_MAX> {
        match *self {
            Self::Attach(attach) => FixedPart::new(&AttachBytes::from(attach)),
            Self::Detach(DetachRegion { region, generation }) => FixedPart::new(&DetachBytes {
                region: region.0.into(),
                generation: generation.0.into(),
                reserved: [0; 4],
            }),
            Self::Fetch(fetch) => FixedPart::new(&FetchBytes {
                region: fetch.region.0.into(),
                offset: fetch.offset.into(),
                generation: fetch.generation.0.into(),
                length: fetch.length.into(),
                urgency: fetch.urgency as u8,
                reserved: [0; 7],
            }),
            Self::WriteBack(back) | Self::Discard(back) => FixedPart::new(&WriteBackBytes {
                region: back.region.0.into(),
                offset: back.offset.into(),
                key: back.key,
                epoch: back.epoch.into(),
                generation: back.generation.0.into(),
                length: back.length.into(),
            }),
            Self::Fence(Fence { region, generation, key }) => FixedPart::new(&FenceBytes {
                region: region.0.into(),
                generation: generation.0.into(),
                reserved: [0; 4],
                key,
            }),
        }
    }

    /// Reads the fixed part of a frame of this kind that has `data_len` bytes after it.
    pub fn decode(kind: FrameKind, fixed: &[u8], data_len: usize) -> Result<Self, DecodeError> {
        let request = match kind {
            ATTACH => Self::Attach(exact::<AttachBytes>("attach request", fixed)?.read()?),
            DETACH => {
                let bytes: &DetachBytes = exact("detach request", fixed)?;
                unused("reserved bytes of a detach", &bytes.reserved)?;
                let (region, generation) = (RegionId(bytes.region.get()), Generation(bytes.generation.get()));
                Self::Detach(DetachRegion { region, generation })
            }
            FETCH => Self::Fetch(exact::<FetchBytes>("fetch request", fixed)?.read()?),
            WRITE_BACK => Self::WriteBack(exact::<WriteBackBytes>("write-back", fixed)?.read()?),
            DISCARD => Self::Discard(exact::<WriteBackBytes>("discard", fixed)?.read()?),
            FENCE => {
                let bytes: &FenceBytes = exact("fence request", fixed)?;
                unused("reserved bytes of a fence", &bytes.reserved)?;
                let (region, generation) = (RegionId(bytes.region.get()), Generation(bytes.generation.get()));
                Self::Fence(Fence { region, generation, key: bytes.key })
            }
            _ => return Err(DecodeError::BadValue { what: "paging request kind", value: kind.0.into() }),
        };
        data_is(if let Self::WriteBack(back) = request { back.length } else { 0 }, data_len)?;
        Ok(request)
    }
}

impl WriteBack {
    /// How long the part before the data is.
    pub const FIXED_LEN: usize = 48;
    /// How many bytes one request may discard: a server gives their memory back while others wait.
    pub const DISCARD_MAX: u32 = 16 << 20;
}

impl From<AttachRegion> for AttachBytes {
    fn from(attach: AttachRegion) -> Self {
        Self {
            region: attach.grant.region.0.into(),
            size: attach.grant.size.into(),
            key: attach.grant.key,
            server: attach.server.0.into(),
            epoch: attach.epoch.into(),
            generation: attach.grant.generation.0.into(),
            held: attach.grant.rights.bits(),
            rights: attach.rights.bits(),
            chunk_log2: attach.chunk_log2,
            mode: attach.mode as u8,
            reserved: [0; 8],
        }
    }
}

impl AttachBytes {
    fn read(&self) -> Result<AttachRegion, DecodeError> {
        unused("reserved bytes of an attach", &self.reserved)?;
        if !(CHUNK_LOG2_MIN..=CHUNK_LOG2_MAX).contains(&self.chunk_log2) {
            return Err(DecodeError::BadValue { what: "chunk size", value: self.chunk_log2.into() });
        }
        Ok(AttachRegion {
            grant: Grant {
                region: RegionId(self.region.get()),
                generation: Generation(self.generation.get()),
                key: self.key,
                rights: Rights::from_bits(self.held)?,
                size: self.size.get(),
            },
            server: Incarnation(self.server.get()),
            chunk_log2: self.chunk_log2,
            rights: Rights::from_bits(self.rights)?,
            mode: self.mode.try_into()?,
            epoch: self.epoch.get(),
        })
    }
}

impl FetchBytes {
    fn read(&self) -> Result<Fetch, DecodeError> {
        unused("reserved bytes of a fetch", &self.reserved)?;
        Ok(Fetch {
            region: RegionId(self.region.get()),
            generation: Generation(self.generation.get()),
            offset: self.offset.get(),
            length: some("length of a fetch", self.length)?,
            urgency: match self.urgency {
                0 => Urgency::Demand,
                1 => Urgency::Background,
                other => return Err(DecodeError::BadValue { what: "urgency", value: other.into() }),
            },
        })
    }
}

impl WriteBackBytes {
    fn read(&self) -> Result<WriteBack, DecodeError> {
        Ok(WriteBack {
            region: RegionId(self.region.get()),
            generation: Generation(self.generation.get()),
            key: self.key,
            epoch: self.epoch.get(),
            offset: self.offset.get(),
            length: some("length of a write-back", self.length)?,
        })
    }
}

/// A number of bytes that is not zero: a request for nothing is malformed.
fn some(what: &'static str, length: U32) -> Result<u32, DecodeError> {
    match length.get() {
        0 => Err(DecodeError::BadValue { what, value: 0 }),
        length => Ok(length),
    }
}

impl TryFrom<u8> for CacheMode {
    type Error = DecodeError;

    fn try_from(value: u8) -> Result<Self, DecodeError> {
        match value {
            0 => Ok(Self::Off),
            1 => Ok(Self::Static),
            2 => Ok(Self::Dynamic),
            3 => Ok(Self::Auto),
            _ => Err(DecodeError::BadValue { what: "cache mode", value: value.into() }),
        }
    }
}
