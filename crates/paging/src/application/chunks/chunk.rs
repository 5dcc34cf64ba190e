//! What chunks and their places are called.

use std::hash::Hasher;

/// A chunk of a region of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ChunkKey {
    /// The region's number in this process.
    pub region: u32,
    /// The chunk's number in the region.
    pub index: u32,
}

/// The size of chunks, as a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeClass(pub u8);

impl SizeClass {
    /// The size in bytes.
    pub const fn bytes(self) -> usize {
        1 << self.0
    }
}

/// A seat's number in its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeatId(pub(super) u32);

/// Where a seat's bytes lie: a slot among those of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// How large it is.
    pub class: SizeClass,
    /// Which one of that size.
    pub slot: u32,
}

/// What the application wants of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read it.
    Read,
    /// To write it.
    Write,
}

/// Chunk numbers are small and dense; one multiplication spreads them.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
