//! The places of everything in the region, and the keys to it.

use outboard_wire::{FrameKind, Generation, Grant, RegionId, RegionKey, Rights, Room};

/// How large each region is, in bytes.
pub(super) const SIZE: usize = 4096;
/// Words that everyone adds one to.
pub(super) const COUNTERS: usize = 4;
/// Words that everyone replaces by numbers that are never used twice.
pub(super) const REGISTERS: usize = 4;
/// How many words each client has to write to.
pub(super) const STRIP: usize = 16;
/// How many clients there are at most.
pub(super) const CLIENTS_MAX: usize = 3;
/// Words that are used at all.
pub(super) const WORDS: usize = COUNTERS + REGISTERS + STRIP * CLIENTS_MAX;

/// A client says that what it has just written must be there.
pub(super) const WITNESS: FrameKind = FrameKind::new(Room::Trial, 3);

/// The key that opens a region to everything.
pub(super) const FULL: RegionKey = RegionKey([7; 16]);
/// The key that opens a region to be read.
pub(super) const READ_ONLY: RegionKey = RegionKey([6; 16]);
/// The region that stays.
pub(super) const KEPT: RegionId = RegionId(1);
/// The region that its owner withdraws at some time.
pub(super) const SHED: RegionId = RegionId(2);
/// The only generation.
pub(super) const GENERATION: Generation = Generation(1);

/// The grant that a client presents.
pub(super) const fn grant(region: RegionId, key: RegionKey, rights: Rights) -> Grant {
    Grant { region, generation: GENERATION, key, rights, size: SIZE as u64 }
}

/// The first word of a client's strip.
pub(super) const fn strip(client: usize) -> usize {
    COUNTERS + REGISTERS + STRIP * client
}
