//! The common part of the tests of the cache.

use outboard_wire::{Generation, Incarnation, RegionId};

use crate::agent::cache::{RegionAttachment, RegionIdentity};

/// A region of this number and size with chunks of 4 KiB, to read only.
pub(super) fn attachment(region: u64, size: u64) -> RegionAttachment {
    let name = RegionIdentity { server: Incarnation(1), region: RegionId(region), generation: Generation(1) };
    RegionAttachment { name, size, chunk_log2: 12, is_writable: false, epoch: 1 }
}
