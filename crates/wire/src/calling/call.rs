//! Calls and what became of them.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::HANDLES_MAX;
use crate::DecodeError;
use crate::error::{exact, split};

/// What stands before the arguments of a call. The frame's flow label is the slot of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number; those of one caller grow.
    pub call: u64,
    /// Which function, as it was registered on this link.
    pub handle: u32,
    /// How long it may wait at the site before it begins, in microseconds; zero is for ever.
    pub patience_us: u32,
}

/// What stands before the bytes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    /// The number of the call.
    pub call: u64,
    /// What the function returned.
    pub value: u64,
}

/// A call without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its number.
    pub call: u64,
    /// Why.
    pub failure: CallFailure,
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// Nothing is registered under that number. It did not run.
    NoFunction,
    /// It waited longer than it had patience. It did not run; if it came from another site, it did not go on.
    Expired,
    /// The arguments are longer than the site takes. It did not run.
    ArgumentsTooLong {
        /// How many bytes it takes.
        max: u32,
    },
    /// A call with this number has begun before, or may have: its window has passed.
    Repeated,
    /// It was recalled before it began. It did not run.
    Recalled,
    /// It came from another site in a state that this site cannot go on from. It has run in part.
    NotResumed,
    /// The function did something it must not. What it wrote until then stays written.
    Trapped {
        /// The instruction, counted from the beginning of its program.
        index: u32,
        /// What was wrong.
        reason: TrapReason,
        /// The address of an access to the function's own memory, else zero.
        address: u64,
    },
}

/// What a function did that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum TrapReason {
    /// It ran longer than its fuel lasted.
    OutOfFuel = 1,
    /// It accessed memory that it does not have.
    Memory = 2,
    /// Its functions called each other too deeply.
    TooDeep = 3,
    /// The site broke its own rules.
    Site = 4,
    /// It has no region of that number.
    NoRegion = 5,
    /// Its rights to the region do not include this.
    NoRight = 6,
    /// The region ends before.
    OutOfBounds = 7,
    /// An atomic operation on no word.
    Misaligned = 8,
    /// The region was freed, or taken from the caller, since the function was registered.
    RegionGone = 9,
    /// The reply is longer than was agreed.
    ReplyTooLong = 10,
    /// What it copied took more than its fuel.
    CopiedTooMuch = 11,
    /// The site could not reach the region, which may still be there. What was begun may have been done.
    NotReached = 12,
    /// It was to go on as a function that its caller has not registered, or with arguments that are too long.
    NoForward = 13,
    /// It was to go on at a memory server that its caller does not have.
    NoServer = 14,
}

impl TrapReason {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::OutOfFuel,
        Self::Memory,
        Self::TooDeep,
        Self::Site,
        Self::NoRegion,
        Self::NoRight,
        Self::OutOfBounds,
        Self::Misaligned,
        Self::RegionGone,
        Self::ReplyTooLong,
        Self::CopiedTooMuch,
        Self::NotReached,
        Self::NoForward,
        Self::NoServer,
    ];

    /// What was wrong, for people.
    pub const fn text(self) -> &'static str {
        match self {
            Self::OutOfFuel => "out of fuel",
            Self::Memory => "access to memory that the function does not have",
            Self::TooDeep => "functions call each other too deeply",
            Self::Site => "the site answered what it must not",
            Self::NoRegion => "no region of that number in the function's list",
            Self::NoRight => "no right to do that with the region",
            Self::OutOfBounds => "access beyond the end of the region",
            Self::Misaligned => "an atomic operation on no aligned word",
            Self::RegionGone => "the region was freed or taken away",
            Self::ReplyTooLong => "the reply is longer than was agreed",
            Self::CopiedTooMuch => "copied more than its fuel allows",
            Self::NotReached => "the site could not reach the region",
            Self::NoForward => "no such function to go on as, or arguments that are too long",
            Self::NoServer => "no such memory server to go on at among its caller's",
        }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CallBytes {
    call: U64,
    handle: U32,
    patience_us: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ReplyBytes {
    call: U64,
    value: U64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct FailedBytes {
    call: U64,
    what: u8,
    reason: u8,
    reserved: [u8; 2],
    index: U32,
    address: U64,
}

const _: () = assert!(size_of::<CallBytes>() == Call::LEN);
const _: () = assert!(size_of::<ReplyBytes>() == ReplyHead::LEN);
const _: () = assert!(size_of::<FailedBytes>() == Failed::LEN);

impl Call {
    /// Its size in bytes, without the arguments.
    pub const LEN: usize = 16;

    /// As it travels.
    #[inline]
    pub fn encode(&self) -> [u8; Self::LEN] {
        let (call, handle, patience_us) = (self.call.into(), self.handle.into(), self.patience_us.into());
        zerocopy::transmute!(CallBytes { call, handle, patience_us })
    }

    /// Reads what [`encode`](Self::encode) wrote.
    #[inline]
    pub fn decode(bytes: [u8; Self::LEN]) -> Result<Self, DecodeError> {
        let bytes: CallBytes = zerocopy::transmute!(bytes);
        let handle = bytes.handle.get();
        if handle >= HANDLES_MAX {
            return Err(DecodeError::BadValue { what: "number of a function", value: handle.into() });
        }
        Ok(Self { call: bytes.call.get(), handle, patience_us: bytes.patience_us.get() })
    }
}

impl ReplyHead {
    /// Its size in bytes, without what the function replied.
    pub const LEN: usize = 16;

    /// As it travels.
    #[inline]
    pub fn encode(&self) -> [u8; Self::LEN] {
        zerocopy::transmute!(ReplyBytes { call: self.call.into(), value: self.value.into() })
    }

    /// Reads the start of a reply, and returns what the function replied.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (fixed, rest) = split::<ReplyBytes>("reply to a call", bytes)?;
        Ok((Self { call: fixed.call.get(), value: fixed.value.get() }, rest))
    }
}

impl Failed {
    /// Its size in bytes.
    pub const LEN: usize = 24;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let (what, reason, index, address) = match self.failure {
            CallFailure::NoFunction => (1, 0, 0, 0),
            CallFailure::Expired => (2, 0, 0, 0),
            CallFailure::ArgumentsTooLong { max } => (3, 0, max, 0),
            CallFailure::Repeated => (4, 0, 0, 0),
            CallFailure::Recalled => (6, 0, 0, 0),
            CallFailure::NotResumed => (7, 0, 0, 0),
            CallFailure::Trapped { index, reason, address } => (5, reason as u8, index, address),
        };
        let (call, reserved) = (self.call.into(), [0; 2]);
        let (index, address) = (index.into(), address.into());
        zerocopy::transmute!(FailedBytes { call, what, reason, reserved, index, address })
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let travelled = bytes;
        let bytes: &FailedBytes = exact("failure of a call", bytes)?;
        let (index, address) = (bytes.index.get(), bytes.address.get());
        let failure = match bytes.what {
            1 => CallFailure::NoFunction,
            2 => CallFailure::Expired,
            3 => CallFailure::ArgumentsTooLong { max: index },
            4 => CallFailure::Repeated,
            6 => CallFailure::Recalled,
            7 => CallFailure::NotResumed,
            5 => {
                let found = TrapReason::ALL.into_iter().find(|reason| *reason as u8 == bytes.reason);
                let value = bytes.reason.into();
                let reason = found.ok_or(DecodeError::BadValue { what: "reason of a trap", value })?;
                CallFailure::Trapped { index, reason, address }
            }
            value => return Err(DecodeError::BadValue { what: "failure of a call", value: value.into() }),
        };
        let failed = Self { call: bytes.call.get(), failure };
        if failed.encode() == travelled {
            Ok(failed)
        } else {
            let value = bytes.what.into();
            Err(DecodeError::BadValue { what: "failure of a call with unused fields", value })
        }
    }
}
