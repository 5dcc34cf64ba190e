//! The sixteen bytes before every frame.

use core::fmt;

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::DecodeError;
use crate::error::split;

/// Stands in every header; anything else means that the stream is not where we think it is.
const MARKER: u16 = 0x4f62;

/// What a frame is about: the upper byte names the room that reads it, the lower byte the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameKind(pub u16);

impl FrameKind {
    /// The kind of message `message` in `room`.
    pub const fn new(room: Room, message: u8) -> Self {
        Self(((room as u16) << 8) | message as u16)
    }

    /// Whether the link itself reads this frame instead of handing it to a room.
    pub const fn is_for_link(self) -> bool {
        self.0 >> 8 == Room::Link as u16
    }

    /// The number of the message within its room.
    pub const fn message(self) -> u8 {
        (self.0 & 0xff) as u8
    }
}

impl fmt::Display for FrameKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}.{:02x}", self.0 >> 8, self.0 & 0xff)
    }
}

/// Who reads a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Room {
    /// The link: heartbeats, goodbyes, one-sided access.
    Link = 0,
    /// The daemons: reserve, free, list, join.
    Control = 1,
    /// Far memory.
    Paging = 2,
    /// Fire-and-forget messages.
    Routing = 3,
    /// Functions that travel.
    Calling = 4,
    /// Remote writes.
    Writing = 5,
    /// Benchmarks and tests.
    Trial = 0xff,
}

/// Spreads frames over cores, queues or hardware flow rules; frames with one label stay in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow(pub u32);

/// What a sender says of a frame; the payload's length is the link's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Who reads it, and as what.
    pub kind: FrameKind,
    /// The label that steering keys on.
    pub flow: Flow,
    /// Free for the reader's use, for example to match a reply to its request.
    pub tag: u32,
}

impl FrameHead {
    /// A head with no flow label and no tag.
    pub const fn new(kind: FrameKind) -> Self {
        Self { kind, flow: Flow(0), tag: 0 }
    }

    /// This head with a tag.
    pub const fn with_tag(self, tag: u32) -> Self {
        Self { tag, ..self }
    }

    /// This head with a flow label.
    pub const fn with_flow(self, flow: Flow) -> Self {
        Self { flow, ..self }
    }
}

/// The header as it stands before each payload, on every link. The flow label sits at a fixed place, so that
/// a NIC rule or a kernel program can find it without knowing the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FrameHeader {
    payload_len: U32,
    flow: U32,
    kind: U16,
    marker: U16,
    tag: U32,
}

const _: () = assert!(size_of::<FrameHeader>() == FrameHeader::LEN);
const _: () = assert!(core::mem::offset_of!(FrameHeader, flow) == FrameHeader::FLOW_OFFSET);
const _: () = assert!(core::mem::offset_of!(FrameHeader, tag) == 12);

impl FrameHeader {
    /// Its size in bytes.
    pub const LEN: usize = 16;
    /// Where the flow label begins.
    pub const FLOW_OFFSET: usize = 4;

    /// The header of a frame with `payload_len` bytes of payload.
    #[inline]
    pub const fn new(head: FrameHead, payload_len: u32) -> Self {
        Self {
            payload_len: U32::new(payload_len),
            flow: U32::new(head.flow.0),
            kind: U16::new(head.kind.0),
            marker: U16::new(MARKER),
            tag: U32::new(head.tag),
        }
    }

    /// Reads a header from the start of `bytes`; the caller compares the length with what it can hold.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        split::<Self>("frame header", bytes)?.0.checked()
    }

    /// Reads a header that was copied out of a ring as two little-endian words.
    #[inline]
    pub fn from_words(words: [u64; 2]) -> Result<Self, DecodeError> {
        // By shifts rather than through bytes in memory, which would be written in words and read in halves.
        let [first, second] = words;
        Self {
            payload_len: U32::new(first as u32),
            flow: U32::new((first >> 32) as u32),
            kind: U16::new(second as u16),
            marker: U16::new((second >> 16) as u16),
            tag: U32::new((second >> 32) as u32),
        }
        .checked()
    }

    /// The header as two little-endian words, for a store without alignment doubts.
    #[inline]
    pub fn to_words(self) -> [u64; 2] {
        let first = u64::from(self.payload_len.get()) | u64::from(self.flow.get()) << 32;
        let low = u64::from(self.kind.get()) | u64::from(self.marker.get()) << 16;
        [first, low | u64::from(self.tag.get()) << 32]
    }

    #[inline]
    fn checked(self) -> Result<Self, DecodeError> {
        if self.marker.get() == MARKER {
            Ok(self)
        } else {
            Err(DecodeError::BadValue { what: "frame marker", value: self.marker.get().into() })
        }
    }

    /// How many bytes follow the header.
    #[inline]
    pub const fn payload_len(&self) -> u32 {
        self.payload_len.get()
    }

    /// What the sender said of the frame.
    #[inline]
    pub const fn head(&self) -> FrameHead {
        FrameHead { kind: FrameKind(self.kind.get()), flow: Flow(self.flow.get()), tag: self.tag.get() }
    }
}
