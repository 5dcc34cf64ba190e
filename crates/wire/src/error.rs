//! What can be wrong with bytes from another process.

use thiserror::Error;

/// Why bytes from a peer were not understood.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the structure does.
    #[error("{what} needs {needed} bytes, got {got}")]
    Truncated {
        /// The structure that was being read.
        what: &'static str,
        /// How many bytes it needs.
        needed: usize,
        /// How many there were.
        got: usize,
    },
    /// There are more bytes than the structure has.
    #[error("{what} has {extra} bytes too many")]
    TrailingBytes {
        /// The structure that was being read.
        what: &'static str,
        /// How many bytes were left over.
        extra: usize,
    },
    /// A field holds a value that has no meaning.
    #[error("{what} has the meaningless value {value:#x}")]
    BadValue {
        /// The field.
        what: &'static str,
        /// What it held.
        value: u64,
    },
    /// The sender does not speak this protocol.
    #[error("not an Outboard peer: it sent {start:02x?}")]
    NotOutboard {
        /// The first bytes that were sent.
        start: [u8; 8],
    },
    /// The extents of a region do not add up to it.
    #[error("the extents cover {covered} bytes of a region of {size}")]
    ExtentsDisagree {
        /// The sum of the primary extents' lengths.
        covered: u64,
        /// The region's size.
        size: u64,
    },
}

crate::debug_with_causes!(DecodeError);

/// Reads the fixed structure at the start of `bytes` and returns what follows it.
pub(crate) fn split<'a, T>(what: &'static str, bytes: &'a [u8]) -> Result<(&'a T, &'a [u8]), DecodeError>
where
    T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    T::ref_from_prefix(bytes).map_err(|_| DecodeError::Truncated {
        what,
        needed: size_of::<T>(),
        got: bytes.len(),
    })
}

/// Reads `bytes` as exactly one fixed structure.
pub(crate) fn exact<'a, T>(what: &'static str, bytes: &'a [u8]) -> Result<&'a T, DecodeError>
where
    T: zerocopy::FromBytes + zerocopy::KnownLayout + zerocopy::Immutable + zerocopy::Unaligned,
{
    let (value, rest) = split(what, bytes)?;
    if rest.is_empty() { Ok(value) } else { Err(DecodeError::TrailingBytes { what, extra: rest.len() }) }
}
