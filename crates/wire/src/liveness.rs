//! How a link shows that it lives, and how it ends on purpose.

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::exact;
use crate::text::Text;
use crate::{DecodeError, FrameKind, Room};

const PING: FrameKind = FrameKind::new(Room::Link, 1);
const PONG: FrameKind = FrameKind::new(Room::Link, 2);
const GOODBYE: FrameKind = FrameKind::new(Room::Link, 3);

/// The longest message here, in bytes.
pub const LIVENESS_LEN_MAX: usize = size_of::<GoodbyeBytes>();

/// A message about the link itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// Are you there? The number comes back.
    Ping(u64),
    /// I am.
    Pong(u64),
    /// This side closes the link on purpose.
    Goodbye {
        /// Why, for programs: zero is an ordinary end.
        code: u16,
        /// Why, for people.
        reason: Text<62>,
    },
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PingBytes {
    nonce: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GoodbyeBytes {
    code: U16,
    reason: Text<62>,
}

const _: () = assert!(size_of::<PingBytes>() == 8);
const _: () = assert!(size_of::<GoodbyeBytes>() == 64);

impl Liveness {
    /// Whether frames of this kind are read here.
    pub const fn reads(kind: FrameKind) -> bool {
        matches!(kind, PING | PONG | GOODBYE)
    }

    /// What to put into the frame head.
    pub const fn kind(&self) -> FrameKind {
        match self {
            Self::Ping(_) => PING,
            Self::Pong(_) => PONG,
            Self::Goodbye { .. } => GOODBYE,
        }
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Ping(nonce) | Self::Pong(nonce) => {
                out.extend_from_slice(PingBytes { nonce: nonce.into() }.as_bytes());
            }
            Self::Goodbye { code, reason } => {
                out.extend_from_slice(GoodbyeBytes { code: code.into(), reason }.as_bytes());
            }
        }
    }

    /// Reads the payload of a frame of this kind.
    pub fn decode(kind: FrameKind, payload: &[u8]) -> Result<Self, DecodeError> {
        match kind {
            PING => Ok(Self::Ping(exact::<PingBytes>("ping", payload)?.nonce.get())),
            PONG => Ok(Self::Pong(exact::<PingBytes>("pong", payload)?.nonce.get())),
            GOODBYE => {
                let bytes: &GoodbyeBytes = exact("goodbye", payload)?;
                bytes.reason.check("goodbye reason")?;
                Ok(Self::Goodbye { code: bytes.code.get(), reason: bytes.reason })
            }
            _ => Err(DecodeError::BadValue { what: "liveness kind", value: kind.0.into() }),
        }
    }
}
