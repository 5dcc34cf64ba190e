//! What the tests of the cache share.

use outboard_wire::{Generation, Incarnation, RegionId};

use crate::agent::cache::{Attachment, RegionName};

/// A region of this number and size with chunks of 4 KiB, to read only.
pub(super) fn attachment(region: u64, size: u64) -> Attachment {
    let name = RegionName { server: Incarnation(1), region: RegionId(region), generation: Generation(1) };
    Attachment { name, size, chunk_log2: 12, is_writable: false, epoch: 1 }
}
