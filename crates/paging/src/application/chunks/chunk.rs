//! The names of chunks and their places.

use std::hash::{Hash, Hasher};

/// A chunk of a region of this process, or a page of one that is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkKey {
    /// The region's number in this process.
    pub region: u32,
    /// The chunk's number in the region.
    pub index: u32,
    /// Which of its pages it is; none for all of it.
    pub page: Option<u16>,
}

impl ChunkKey {
    /// A whole chunk.
    pub const fn new(region: u32, index: u32) -> Self {
        Self { region, index, page: None }
    }

    /// A page of its chunk.
    pub const fn of_page(self, page: u16) -> Self {
        Self { page: Some(page), ..self }
    }

    /// The chunk that it is, or is a page of.
    pub const fn whole(self) -> Self {
        Self { page: None, ..self }
    }
}

impl Hash for ChunkKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.region);
        state.write_u32(self.index);
        if let Some(page) = self.page {
            state.write_u32(page.into());
        }
    }
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

impl SeatId {
    /// The number after it.
    pub(in super::super) fn next(self) -> u32 {
        self.0 + 1
    }
}

/// Where a seat's bytes lie: a slot among those of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeatFrame {
    /// How large it is.
    pub class: SizeClass,
    /// Which one of that size.
    pub slot: u32,
}

/// The wish of the application about a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read it.
    Read,
    /// To write it.
    Write,
}

/// Numbers of chunks and pages are small and dense; a multiplication for each spreads them.
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
