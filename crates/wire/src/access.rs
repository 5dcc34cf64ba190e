//! One-sided access as messages: how a link without shared memory or a capable NIC reads and writes at its peer.
//!
//! A holder opens a region once, presenting its key, and gets a *slot* on that link; every later access names
//! the slot. The frame's tag pairs a reply with its request. A write's data and a read reply's data follow the
//! fixed part.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::exact;
use crate::{DecodeError, FixedPart, FrameKind, Generation, RegionId, RegionKey, Rights, Room};

const OPEN: FrameKind = FrameKind::new(Room::Link, 16);
const OPENED: FrameKind = FrameKind::new(Room::Link, 17);
const CLOSE: FrameKind = FrameKind::new(Room::Link, 18);
const WITHDRAWN: FrameKind = FrameKind::new(Room::Link, 19);
const READ: FrameKind = FrameKind::new(Room::Link, 32);
const WRITE: FrameKind = FrameKind::new(Room::Link, 33);
const COMPARE_SWAP: FrameKind = FrameKind::new(Room::Link, 34);
const FETCH_ADD: FrameKind = FrameKind::new(Room::Link, 35);
const DONE: FrameKind = FrameKind::new(Room::Link, 36);

/// The longest fixed part of any message here, in bytes.
pub const FIXED_LEN_MAX: usize = 32;

/// A region that was opened on a link, by the number its owner gave it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

/// A range of an open region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpan {
    /// Which open region.
    pub slot: Slot,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// What one side asks of the other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRequest {
    /// Give me a slot for this region.
    Open {
        /// Which region.
        region: RegionId,
        /// Which life of it.
        generation: Generation,
        /// What will be done with it.
        rights: Rights,
        /// The proof.
        key: RegionKey,
    },
    /// The slot is no longer needed. Not answered.
    Close {
        /// Which one.
        slot: Slot,
    },
    /// The region of this slot, which the holder may reach past the owner's processor, is no longer to be had. Answered
    /// by closing the slot, once nothing is under way there.
    Withdrawn {
        /// Which one.
        slot: Slot,
    },
    /// Send me these bytes.
    Read(RegionSpan),
    /// Put the bytes that follow there.
    Write(RegionSpan),
    /// Store `desired` in the word at `span` if it holds `expected`.
    CompareSwap {
        /// An aligned 8-byte word.
        span: RegionSpan,
        /// What it must hold.
        expected: u64,
        /// What it will hold then.
        desired: u64,
    },
    /// Add to the word at `span`, wrapping around.
    FetchAdd {
        /// An aligned 8-byte word.
        span: RegionSpan,
        /// What to add.
        addend: u64,
    },
}

/// How an access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum AccessStatus {
    /// It was done.
    Done = 0,
    /// The span is not inside the region.
    OutOfBounds = 1,
    /// The slot was opened without this right, or the key does not carry it.
    NoRight = 2,
    /// No such slot, or no such region in that generation, or the wrong key: a stranger is not told which.
    NotOpen = 3,
    /// An atomic's word is not aligned to 8 bytes.
    Misaligned = 4,
    /// The owner has no slot left.
    Busy = 5,
    /// The owner has no descriptor left by which it could hand the region over.
    NoDescriptors = 6,
    /// The owner has no memory left for pages that would have to be made present.
    NoMemory = 7,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessReply {
    /// To an open.
    Opened {
        /// How it went; the rest counts only if it is `Done`.
        status: AccessStatus,
        /// The slot to use.
        slot: Slot,
        /// The region's size in bytes.
        size: u64,
    },
    /// To anything else. The data of a read follow.
    Done {
        /// How it went.
        status: AccessStatus,
        /// The word before an atomic changed it.
        old: u64,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct OpenBytes {
    region: U64,
    generation: U32,
    rights: U32,
    key: RegionKey,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct SpanBytes {
    offset: U64,
    slot: U32,
    len: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct AtomicBytes {
    span: SpanBytes,
    first: U64,
    second: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyBytes {
    value: U64,
    status: U32,
    slot: U32,
}

const _: () = assert!(size_of::<OpenBytes>() == 32);
const _: () = assert!(size_of::<SpanBytes>() == 16);
const _: () = assert!(size_of::<AtomicBytes>() == 32);
const _: () = assert!(size_of::<ReplyBytes>() == 16);

impl From<RegionSpan> for SpanBytes {
    fn from(span: RegionSpan) -> Self {
        Self { offset: span.offset.into(), slot: span.slot.0.into(), len: span.len.into() }
    }
}

impl From<&SpanBytes> for RegionSpan {
    fn from(bytes: &SpanBytes) -> Self {
        Self { slot: Slot(bytes.slot.get()), offset: bytes.offset.get(), len: bytes.len.get() }
    }
}

impl AccessRequest {
    /// How long the fixed part of a request of this kind is; `None` if it is no request.
    pub const fn fixed_len(kind: FrameKind) -> Option<usize> {
        match kind {
            OPEN => Some(size_of::<OpenBytes>()),
            CLOSE | WITHDRAWN | READ | WRITE => Some(size_of::<SpanBytes>()),
            COMPARE_SWAP | FETCH_ADD => Some(size_of::<AtomicBytes>()),
            _ => None,
        }
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Open { .. } => OPEN,
            Self::Close { .. } => CLOSE,
            Self::Withdrawn { .. } => WITHDRAWN,
            Self::Read(_) => READ,
            Self::Write(_) => WRITE,
            Self::CompareSwap { .. } => COMPARE_SWAP,
            Self::FetchAdd { .. } => FETCH_ADD,
        }
    }

    /// The fixed part.
    pub fn encode(&self) -> FixedPart<FIXED_LEN_MAX> {
        match *self {
            Self::Open { region, generation, rights, key } => FixedPart::new(&OpenBytes {
                region: region.0.into(),
                generation: generation.0.into(),
                rights: u32::from(rights.bits()).into(),
                key,
            }),
            Self::Close { slot } | Self::Withdrawn { slot } => {
                FixedPart::new(&SpanBytes::from(RegionSpan { slot, offset: 0, len: 0 }))
            }
            Self::Read(span) | Self::Write(span) => FixedPart::new(&SpanBytes::from(span)),
            Self::CompareSwap { span, expected, desired } => FixedPart::new(&AtomicBytes {
                span: span.into(),
                first: expected.into(),
                second: desired.into(),
            }),
            Self::FetchAdd { span, addend } => {
                FixedPart::new(&AtomicBytes { span: span.into(), first: addend.into(), second: 0.into() })
            }
        }
    }

    /// Reads the fixed part of a frame of this kind that has `data_len` bytes after it.
    pub fn decode(kind: FrameKind, fixed: &[u8], data_len: usize) -> Result<Self, DecodeError> {
        let request = match kind {
            OPEN => decode_open(exact("open request", fixed)?)?,
            CLOSE => Self::Close { slot: decode_slot("close request", exact("close request", fixed)?)? },
            WITHDRAWN => Self::Withdrawn { slot: decode_slot("withdrawal", exact("withdrawal", fixed)?)? },
            READ => Self::Read(exact::<SpanBytes>("read request", fixed)?.into()),
            WRITE => Self::Write(exact::<SpanBytes>("write request", fixed)?.into()),
            COMPARE_SWAP | FETCH_ADD => decode_atomic(kind, exact("atomic request", fixed)?)?,
            _ => return Err(DecodeError::BadValue { what: "request kind", value: kind.0.into() }),
        };
        let expected = if let Self::Write(span) = request { span.len as usize } else { 0 };
        if data_len == expected {
            Ok(request)
        } else {
            Err(DecodeError::BadValue { what: "length of a request's data", value: data_len as u64 })
        }
    }
}

fn decode_open(bytes: &OpenBytes) -> Result<AccessRequest, DecodeError> {
    let rights = bytes.rights.get();
    let rights = u8::try_from(rights)
        .map_err(|_| DecodeError::BadValue { what: "rights", value: rights.into() })
        .and_then(Rights::from_bits)?;
    Ok(AccessRequest::Open {
        region: RegionId(bytes.region.get()),
        generation: Generation(bytes.generation.get()),
        rights,
        key: bytes.key,
    })
}

/// The slot of a message that has nothing else.
fn decode_slot(what: &'static str, bytes: &SpanBytes) -> Result<Slot, DecodeError> {
    match RegionSpan::from(bytes) {
        RegionSpan { slot, offset: 0, len: 0 } => Ok(slot),
        RegionSpan { offset, .. } => Err(DecodeError::BadValue { what, value: offset }),
    }
}

fn decode_atomic(kind: FrameKind, bytes: &AtomicBytes) -> Result<AccessRequest, DecodeError> {
    let span = RegionSpan::from(&bytes.span);
    if span.len != 8 {
        return Err(DecodeError::BadValue { what: "length of an atomic", value: span.len.into() });
    }
    let (first, second) = (bytes.first.get(), bytes.second.get());
    match kind {
        COMPARE_SWAP => Ok(AccessRequest::CompareSwap { span, expected: first, desired: second }),
        _ if second == 0 => Ok(AccessRequest::FetchAdd { span, addend: first }),
        _ => Err(DecodeError::BadValue { what: "reserved word of a fetch-add", value: second }),
    }
}

impl AccessReply {
    /// How long the fixed part of every reply is.
    pub const FIXED_LEN: usize = size_of::<ReplyBytes>();

    /// Whether frames of this kind are replies.
    pub const fn is_reply(kind: FrameKind) -> bool {
        matches!(kind, OPENED | DONE)
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Opened { .. } => OPENED,
            Self::Done { .. } => DONE,
        }
    }

    /// The fixed part.
    pub fn encode(&self) -> FixedPart<FIXED_LEN_MAX> {
        let (value, status, slot) = match *self {
            Self::Opened { status, slot, size } => (size, status, slot.0),
            Self::Done { status, old } => (old, status, 0),
        };
        FixedPart::new(&ReplyBytes { value: value.into(), status: (status as u32).into(), slot: slot.into() })
    }

    /// Reads the fixed part of a frame of this kind.
    pub fn decode(kind: FrameKind, fixed: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &ReplyBytes = exact("reply", fixed)?;
        let status = AccessStatus::try_from(bytes.status.get())?;
        match (kind, bytes.slot.get()) {
            (OPENED, slot) => Ok(Self::Opened { status, slot: Slot(slot), size: bytes.value.get() }),
            (DONE, 0) => Ok(Self::Done { status, old: bytes.value.get() }),
            (DONE, slot) => {
                Err(DecodeError::BadValue { what: "reserved word of a reply", value: slot.into() })
            }
            _ => Err(DecodeError::BadValue { what: "reply kind", value: kind.0.into() }),
        }
    }
}

impl AccessStatus {
    /// What a peer that speaks this version is told in its place.
    pub const fn for_version(self, version: u16) -> Self {
        match self {
            // It knows that as a reason to try again.
            Self::NoMemory if version < 2 => Self::Busy,
            status => status,
        }
    }
}

impl TryFrom<u32> for AccessStatus {
    type Error = DecodeError;

    fn try_from(value: u32) -> Result<Self, DecodeError> {
        match value {
            0 => Ok(Self::Done),
            1 => Ok(Self::OutOfBounds),
            2 => Ok(Self::NoRight),
            3 => Ok(Self::NotOpen),
            4 => Ok(Self::Misaligned),
            5 => Ok(Self::Busy),
            6 => Ok(Self::NoDescriptors),
            7 => Ok(Self::NoMemory),
            _ => Err(DecodeError::BadValue { what: "status", value: value.into() }),
        }
    }
}
