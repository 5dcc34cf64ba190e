//! One-sided access as messages: how a link without shared memory or a capable NIC reads and writes at its peer.
//!
//! A holder opens a region once, presenting its key, and gets a *slot* on that link; every later access names
//! the slot. The frame's tag pairs a reply with its request. A write's data and a read reply's data follow the
//! fixed part.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::exact;
use crate::{DecodeError, Generation, Kind, RegionId, RegionKey, Rights, Room};

const OPEN: Kind = Kind::new(Room::Link, 16);
const OPENED: Kind = Kind::new(Room::Link, 17);
const CLOSE: Kind = Kind::new(Room::Link, 18);
const WITHDRAWN: Kind = Kind::new(Room::Link, 19);
const READ: Kind = Kind::new(Room::Link, 32);
const WRITE: Kind = Kind::new(Room::Link, 33);
const COMPARE_SWAP: Kind = Kind::new(Room::Link, 34);
const FETCH_ADD: Kind = Kind::new(Room::Link, 35);
const DONE: Kind = Kind::new(Room::Link, 36);

/// The longest fixed part of any message here, in bytes.
pub const FIXED_LEN_MAX: usize = 32;

/// A region that was opened on a link, by the number its owner gave it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(pub u32);

/// A stretch of an open region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which open region.
    pub slot: Slot,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u32,
}

/// What one side asks of the other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
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
    Read(Span),
    /// Put the bytes that follow there.
    Write(Span),
    /// Store `desired` in the word at `span` if it holds `expected`.
    CompareSwap {
        /// An aligned 8-byte word.
        span: Span,
        /// What it must hold.
        expected: u64,
        /// What it will hold then.
        desired: u64,
    },
    /// Add to the word at `span`, wrapping around.
    FetchAdd {
        /// An aligned 8-byte word.
        span: Span,
        /// What to add.
        addend: u64,
    },
}

/// How an access ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
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
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To an open.
    Opened {
        /// How it went; the rest counts only if it is `Done`.
        status: Status,
        /// The slot to use.
        slot: Slot,
        /// The region's size in bytes.
        size: u64,
    },
    /// To anything else. The data of a read follow.
    Done {
        /// How it went.
        status: Status,
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

/// The fixed part of a message, ready to travel.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    bytes: [u8; FIXED_LEN_MAX],
    len: usize,
}

impl Fixed {
    fn new(message: &(impl IntoBytes + Immutable)) -> Self {
        let mut bytes = [0; FIXED_LEN_MAX];
        let len = message.as_bytes().len();
        bytes[..len].copy_from_slice(message.as_bytes());
        Self { bytes, len }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl From<Span> for SpanBytes {
    fn from(span: Span) -> Self {
        Self { offset: span.offset.into(), slot: span.slot.0.into(), len: span.len.into() }
    }
}

impl From<&SpanBytes> for Span {
    fn from(bytes: &SpanBytes) -> Self {
        Self { slot: Slot(bytes.slot.get()), offset: bytes.offset.get(), len: bytes.len.get() }
    }
}

impl Request {
    /// How long the fixed part of a request of this kind is; `None` if it is no request.
    pub const fn fixed_len(kind: Kind) -> Option<usize> {
        match kind {
            OPEN => Some(size_of::<OpenBytes>()),
            CLOSE | WITHDRAWN | READ | WRITE => Some(size_of::<SpanBytes>()),
            COMPARE_SWAP | FETCH_ADD => Some(size_of::<AtomicBytes>()),
            _ => None,
        }
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> Kind {
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
    pub fn encode(&self) -> Fixed {
        match *self {
            Self::Open { region, generation, rights, key } => Fixed::new(&OpenBytes {
                region: region.0.into(),
                generation: generation.0.into(),
                rights: u32::from(rights.bits()).into(),
                key,
            }),
            Self::Close { slot } | Self::Withdrawn { slot } => {
                Fixed::new(&SpanBytes::from(Span { slot, offset: 0, len: 0 }))
            }
            Self::Read(span) | Self::Write(span) => Fixed::new(&SpanBytes::from(span)),
            Self::CompareSwap { span, expected, desired } => {
                Fixed::new(&AtomicBytes { span: span.into(), first: expected.into(), second: desired.into() })
            }
            Self::FetchAdd { span, addend } => {
                Fixed::new(&AtomicBytes { span: span.into(), first: addend.into(), second: 0.into() })
            }
        }
    }

    /// Reads the fixed part of a frame of this kind that has `data_len` bytes after it.
    pub fn decode(kind: Kind, fixed: &[u8], data_len: usize) -> Result<Self, DecodeError> {
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

fn decode_open(bytes: &OpenBytes) -> Result<Request, DecodeError> {
    let rights = bytes.rights.get();
    let rights = u8::try_from(rights)
        .map_err(|_| DecodeError::BadValue { what: "rights", value: rights.into() })
        .and_then(Rights::from_bits)?;
    Ok(Request::Open {
        region: RegionId(bytes.region.get()),
        generation: Generation(bytes.generation.get()),
        rights,
        key: bytes.key,
    })
}

/// The slot of a message that has nothing else.
fn decode_slot(what: &'static str, bytes: &SpanBytes) -> Result<Slot, DecodeError> {
    match Span::from(bytes) {
        Span { slot, offset: 0, len: 0 } => Ok(slot),
        Span { offset, .. } => Err(DecodeError::BadValue { what, value: offset }),
    }
}

fn decode_atomic(kind: Kind, bytes: &AtomicBytes) -> Result<Request, DecodeError> {
    let span = Span::from(&bytes.span);
    if span.len != 8 {
        return Err(DecodeError::BadValue { what: "length of an atomic", value: span.len.into() });
    }
    let (first, second) = (bytes.first.get(), bytes.second.get());
    match kind {
        COMPARE_SWAP => Ok(Request::CompareSwap { span, expected: first, desired: second }),
        _ if second == 0 => Ok(Request::FetchAdd { span, addend: first }),
        _ => Err(DecodeError::BadValue { what: "reserved word of a fetch-add", value: second }),
    }
}

impl Reply {
    /// How long the fixed part of every reply is.
    pub const FIXED_LEN: usize = size_of::<ReplyBytes>();

    /// Whether frames of this kind are replies.
    pub const fn is_reply(kind: Kind) -> bool {
        matches!(kind, OPENED | DONE)
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Opened { .. } => OPENED,
            Self::Done { .. } => DONE,
        }
    }

    /// The fixed part.
    pub fn encode(&self) -> Fixed {
        let (value, status, slot) = match *self {
            Self::Opened { status, slot, size } => (size, status, slot.0),
            Self::Done { status, old } => (old, status, 0),
        };
        Fixed::new(&ReplyBytes { value: value.into(), status: (status as u32).into(), slot: slot.into() })
    }

    /// Reads the fixed part of a frame of this kind.
    pub fn decode(kind: Kind, fixed: &[u8]) -> Result<Self, DecodeError> {
        let bytes: &ReplyBytes = exact("reply", fixed)?;
        let status = Status::try_from(bytes.status.get())?;
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

impl TryFrom<u32> for Status {
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
            _ => Err(DecodeError::BadValue { what: "status", value: value.into() }),
        }
    }
}
