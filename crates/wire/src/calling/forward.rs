//! Calls that go on at another memory server.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Call, HANDLES_MAX};
use crate::DecodeError;
use crate::error::split;

/// The longest [`Forwarded`] that a site sends, in bytes.
pub const FORWARDED_LEN_MAX: usize = 16 << 10;
/// How many memory servers one caller can have.
pub const SERVERS_MAX: u32 = 256;
/// What it costs in fuel to go on at another memory server: it is a round trip, and this bounds how many there are.
pub const HOP_FUEL: u64 = 1000;

/// From a site to a caller, instead of a reply: the call has ended here, and goes on at another of the caller's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarded<'a> {
    /// The number of the call.
    pub call: u64,
    /// At which server, by its place in the caller's list.
    pub server: u32,
    /// As which function, as it was registered there.
    pub handle: u32,
    /// The instruction that said so, counted from the beginning of its program.
    pub index: u32,
    /// How much fuel is left.
    pub fuel: u64,
    /// What was replied here.
    pub reply: &'a [u8],
    /// What the function there is given.
    pub arguments: &'a [u8],
}

/// What stands before the arguments of a call that has begun at another memory server. The site answers it as a [`Call`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Continue {
    /// The call, which has a number of its own here.
    pub call: Call,
    /// How much fuel it has left; it gets no more than any call of its function.
    pub fuel: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ForwardedBytes {
    call: U64,
    server: U32,
    handle: U32,
    index: U32,
    reply: U32,
    fuel: U64,
}

impl<'a> Forwarded<'a> {
    /// Its size in bytes, without reply and arguments.
    pub const FIXED_LEN: usize = size_of::<ForwardedBytes>();

    /// Its size in bytes.
    pub fn encoded_len(&self) -> usize {
        Self::FIXED_LEN + self.reply.len() + self.arguments.len()
    }

    /// Appends it as it travels.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let fixed = ForwardedBytes {
            call: self.call.into(),
            server: self.server.into(),
            handle: self.handle.into(),
            index: self.index.into(),
            reply: (self.reply.len() as u32).into(),
            fuel: self.fuel.into(),
        };
        into.extend_from_slice(fixed.as_bytes());
        into.extend_from_slice(self.reply);
        into.extend_from_slice(self.arguments);
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (fixed, rest) = split::<ForwardedBytes>("forwarded call", bytes)?;
        let (server, handle, length) = (fixed.server.get(), fixed.handle.get(), fixed.reply.get());
        let bad = |what, value: u32| DecodeError::BadValue { what, value: value.into() };
        if server >= SERVERS_MAX {
            return Err(bad("number of a server", server));
        }
        if handle >= HANDLES_MAX {
            return Err(bad("number of a function", handle));
        }
        let (reply, arguments) = rest
            .split_at_checked(length as usize)
            .ok_or_else(|| bad("length of a forwarded call's reply", length))?;
        let (call, index, fuel) = (fixed.call.get(), fixed.index.get(), fixed.fuel.get());
        Ok(Self { call, server, handle, index, fuel, reply, arguments })
    }
}

impl Continue {
    /// Its size in bytes, without the arguments.
    pub const LEN: usize = Call::LEN + 8;

    /// As it travels.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..Call::LEN].copy_from_slice(&self.call.encode());
        bytes[Call::LEN..].copy_from_slice(&self.fuel.to_le_bytes());
        bytes
    }

    /// Reads the start of a call that goes on, and returns its arguments.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (call, rest) = split::<[u8; Call::LEN]>("call that goes on", bytes)?;
        let (fuel, arguments) = split::<[u8; 8]>("call that goes on", rest)?;
        Ok((Self { call: Call::decode(*call)?, fuel: u64::from_le_bytes(*fuel) }, arguments))
    }
}
