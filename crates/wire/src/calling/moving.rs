//! Calls that go on at another site.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::HANDLES_MAX;
use crate::DecodeError;
use crate::error::split;

/// How many calls one [`Recall`] names.
pub const RECALL_MAX: usize = 256;
/// The longest [`Moving`] that a site gives back, in bytes. Calls with more stay where they are.
pub const MOVING_LEN_MAX: usize = 16 << 10;

/// From a caller to a site: give these calls back if you can, so that they go on elsewhere. One that waits for its turn is
/// answered by a [`Failed`](super::Failed), one that waits for a read by a [`Moving`]; all others go on there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    /// Their numbers, at most [`RECALL_MAX`].
    pub calls: Vec<u64>,
}

/// A call in the middle of its run, waiting for a read: from a site to its caller, and from there to another site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moving<'a> {
    /// Its number.
    pub call: u64,
    /// Which function, as it was registered at all sites of the caller.
    pub handle: u32,
    /// How long it may wait at the next site before it goes on there, in microseconds; zero is for ever. A site that gives
    /// it back says nothing of that.
    pub patience_us: u32,
    /// What its accesses have cost so far.
    pub spent: u64,
    /// What it has replied so far.
    pub reply: &'a [u8],
    /// The run itself, as the eBPF engine writes it.
    pub state: &'a [u8],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct MovingBytes {
    call: U64,
    handle: U32,
    reply: U32,
    patience_us: U32,
    spent: U64,
}

impl Recall {
    /// As it travels.
    ///
    /// # Panics
    /// If there are more than [`RECALL_MAX`].
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.calls.len() <= RECALL_MAX, "more calls than can be recalled at once");
        self.calls.iter().flat_map(|call| call.to_le_bytes()).collect()
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (calls, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(DecodeError::TrailingBytes { what: "recall of calls", extra: rest.len() });
        }
        if calls.len() > RECALL_MAX {
            let value = calls.len() as u64;
            return Err(DecodeError::BadValue { what: "number of calls to recall", value });
        }
        Ok(Self { calls: calls.iter().map(|call| u64::from_le_bytes(*call)).collect() })
    }
}

impl<'a> Moving<'a> {
    /// Its size in bytes, without reply and state.
    pub const FIXED_LEN: usize = size_of::<MovingBytes>();

    /// Its size in bytes.
    pub fn encoded_len(&self) -> usize {
        Self::FIXED_LEN + self.reply.len() + self.state.len()
    }

    /// Appends it as it travels.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let fixed = MovingBytes {
            call: self.call.into(),
            handle: self.handle.into(),
            reply: (self.reply.len() as u32).into(),
            patience_us: self.patience_us.into(),
            spent: self.spent.into(),
        };
        into.extend_from_slice(fixed.as_bytes());
        into.extend_from_slice(self.reply);
        into.extend_from_slice(self.state);
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (fixed, rest) = split::<MovingBytes>("moving call", bytes)?;
        let (handle, length) = (fixed.handle.get(), fixed.reply.get());
        if handle >= HANDLES_MAX {
            return Err(DecodeError::BadValue { what: "number of a function", value: handle.into() });
        }
        let Some((reply, state)) = rest.split_at_checked(length as usize) else {
            return Err(DecodeError::BadValue {
                what: "length of a moving call's reply",
                value: length.into(),
            });
        };
        let (call, patience_us, spent) = (fixed.call.get(), fixed.patience_us.get(), fixed.spent.get());
        Ok(Self { call, handle, patience_us, spent, reply, state })
    }
}
