//! The regions of the writers.

use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};

/// How many writers there are at most.
pub(super) const WRITERS_MAX: usize = 4;
/// How many words a region has: a page.
pub(super) const WORDS: usize = 512;
/// How many regions each writer has for itself.
pub(super) const REGIONS: usize = 2;
/// Which of them the server withdraws after a while.
pub(super) const SHED: usize = 1;

/// The grant that opens a region of a writer.
pub(super) fn grant(writer: usize, region: usize) -> Grant {
    let number = writer * REGIONS + region + 1;
    Grant {
        region: RegionId(number as u64),
        generation: Generation(1),
        key: RegionKey([number as u8; 16]),
        rights: Rights::READ.and(Rights::WRITE),
        size: (WORDS * 8) as u64,
    }
}
