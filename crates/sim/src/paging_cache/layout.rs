//! The regions and how they are cut.

use std::ops::Range;

use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};

/// How many applications there are at most.
pub(super) const APPLICATIONS_MAX: usize = 3;
/// What is fetched and written back at once, in bytes: four in a piece.
pub(super) const GRAIN: usize = 1 << 10;
/// How many grains a region has.
pub(super) const GRAINS: usize = 40;
/// How large a region is, in bytes: it ends within a piece.
pub(super) const SIZE: usize = GRAINS * GRAIN - 24;
/// The unit of movement, as a power of two.
pub(super) const CHUNK_LOG2: u8 = 12;
/// What may be done with a region.
pub(super) const RIGHTS: Rights = Rights::READ.and(Rights::WRITE);

/// Where grains lie.
pub(super) fn span(grains: Range<usize>) -> Range<usize> {
    grains.start * GRAIN..(grains.end * GRAIN).min(SIZE)
}

/// What opens an application's region.
pub(super) fn grant(application: usize) -> Grant {
    Grant {
        region: RegionId(application as u64 + 1),
        generation: Generation(1),
        key: RegionKey([application as u8 + 1; 16]),
        rights: RIGHTS,
        size: SIZE as u64,
    }
}
