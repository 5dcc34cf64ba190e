//! What chunks and their places are called.

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
