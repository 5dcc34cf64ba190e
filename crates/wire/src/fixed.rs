//! The part of a message before its data.

use zerocopy::{Immutable, IntoBytes};

/// The part of a message before its data, encoded: at most `MAX` bytes, without an allocation.
#[derive(Clone, Copy, Debug)]
pub struct FixedPart<const MAX: usize> {
    bytes: [u8; MAX],
    len: usize,
}

impl<const MAX: usize> FixedPart<MAX> {
    pub(crate) fn new(message: &(impl IntoBytes + Immutable)) -> Self {
        let mut bytes = [0; MAX];
        let len = message.as_bytes().len();
        bytes[..len].copy_from_slice(message.as_bytes());
        Self { bytes, len }
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
