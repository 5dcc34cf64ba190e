//! The regions and how they are cut.

use std::ops::Range;

/// How many regions there are at most.
pub(super) const REGIONS_MAX: usize = 3;
/// How many applications there are at most.
pub(super) const APPLICATIONS_MAX: usize = 4;
/// The bytes that are fetched and written back at once: four in a piece.
pub(super) const GRAIN: usize = 1 << 10;
/// How many grains a region has.
pub(super) const GRAINS: usize = 40;
/// How large a region is, in bytes: it ends within a piece.
pub(super) const SIZE: usize = GRAINS * GRAIN - 24;
/// The unit of movement, as a power of two.
pub(super) const CHUNK_LOG2: u8 = 12;

/// Where grains lie.
pub(super) fn span(grains: Range<usize>) -> Range<usize> {
    grains.start * GRAIN..(grains.end * GRAIN).min(SIZE)
}

/// Every word of what a write-back puts into these grains is its stamp.
pub(super) fn stamped(grains: Range<usize>, stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(span(grains).len() / 8)
}

/// The stamp that a grain holds; none if it holds several.
pub(super) fn stamp_of(bytes: &[u8]) -> Option<u64> {
    let first = u64::from_le_bytes(*bytes.first_chunk()?);
    (bytes[8..] == bytes[..bytes.len() - 8]).then_some(first)
}
