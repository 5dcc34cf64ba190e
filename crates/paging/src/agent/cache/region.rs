//! The regions whose bytes a cache may hold.

use std::collections::HashMap;

use outboard_wire::{Generation, Incarnation, RegionId};
use thiserror::Error;

use super::counters::Sources;
use super::slab::Slab;

/// The name of a region beyond doubt: which life of which server, and which life of which id there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionIdentity {
    /// The life of the server that owns it.
    pub server: Incarnation,
    /// Its id there.
    pub region: RegionId,
    /// Which life of that id.
    pub generation: Generation,
}

/// A region as a cache numbers it, from the first attachment until it is neither attached nor cached any more. What is
/// under way for a region that has been forgotten never meets another one by its number: of those that share a place, the
/// upper half tells one from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionNumber(pub(crate) u32);

/// The words of an application about a region when it attaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionAttachment {
    /// Which region.
    pub name: RegionIdentity,
    /// Its size in bytes.
    pub size: u64,
    /// Its unit of movement, as a power of two.
    pub chunk_log2: u8,
    /// Whether the application may write to it.
    pub is_writable: bool,
    /// Its write epoch.
    pub epoch: u64,
}

/// Why a region is not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// As many regions are known as can be.
    #[error("the agent knows {max} regions and has no room for another; detach some")]
    TooMany {
        /// How many.
        max: u32,
    },
    /// Others have attached it with another size.
    #[error("the region has {known} bytes for others, not {size}; present the grant that the server gave")]
    OtherSize {
        /// The known value.
        known: u64,
        /// The value that was said.
        size: u64,
    },
    /// Others have attached it in a later write epoch.
    #[error("write epoch {epoch} of the region is over, it is in epoch {known}; open it again")]
    StaleEpoch {
        /// The known value.
        known: u64,
        /// The value that was said.
        epoch: u64,
    },
}

/// A region that is attached or cached.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    number: RegionNumber,
    pub(crate) name: RegionIdentity,
    pub(crate) size: u64,
    pub(crate) piece_log2: u8,
    /// How many pieces a chunk has, as a power of two. Those of one chunk are asked for together, in their order, which
    /// says nothing of where the application goes.
    pub(crate) pieces_per_chunk_log2: u8,
    pub(crate) is_writable: bool,
    pub(crate) epoch: u64,
    pub(crate) attachments: u32,
    /// How many entries hold bytes of it.
    pub(crate) entries: u32,
    /// How many write-backs to it are under way.
    pub(crate) writes: u32,
    /// How far ahead of a movement to read, in entries.
    pub(crate) depth: u32,
    /// The share of what was read ahead and used, in 256ths, lately.
    pub(crate) usefulness: u32,
    /// Counts the times that reading ahead was not thought useful, to try it again now and then.
    pub(crate) declined: u32,
    pub(crate) sources: Sources,
}

/// The state that reading ahead begins with: the benefit of the doubt.
const USEFULNESS_START: u32 = 128;

impl Region {
    /// The length of an entry: less than usual at the end of the region.
    pub(crate) fn entry_len(&self, entry: u64, entry_log2: u8) -> u64 {
        self.size.saturating_sub(entry << entry_log2).min(1 << entry_log2)
    }

    fn is_forgettable(&self) -> bool {
        self.attachments == 0 && self.entries == 0 && self.writes == 0
    }
}

/// All regions that are attached or cached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regions {
    known: Slab<Region>,
    numbers: HashMap<RegionIdentity, RegionNumber>,
    /// How many there have been.
    serial: u32,
}

/// The lower half of a number is its place.
const PLACE_BITS: u32 = 16;
const PLACE: u32 = (1 << PLACE_BITS) - 1;

/// The finding when a region is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing, or the same as before.
    Usable(RegionNumber),
    /// The cached bytes belong to the past and must be dropped.
    Outdated(RegionNumber),
}

impl Regions {
    pub(crate) fn get(&self, number: RegionNumber) -> Option<&Region> {
        self.known.get(number.0 & PLACE).filter(|region| region.number == number)
    }

    pub(crate) fn get_mut(&mut self, number: RegionNumber) -> Option<&mut Region> {
        self.known.get_mut(number.0 & PLACE).filter(|region| region.number == number)
    }

    pub(crate) fn find(&self, name: &RegionIdentity) -> Option<RegionNumber> {
        self.numbers.get(name).copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RegionNumber, &Region)> {
        self.known.iter().map(|(_, region)| (region.number, region))
    }

    pub(crate) fn attach(
        &mut self,
        attachment: &RegionAttachment,
        piece_log2: u8,
        regions_max: u32,
    ) -> Result<Found, AttachError> {
        let RegionAttachment { name, size, is_writable, epoch, .. } = *attachment;
        let Some(number) = self.find(&name) else {
            let regions_max = regions_max.min(PLACE);
            if self.known.len() >= regions_max as usize {
                return Err(AttachError::TooMany { max: regions_max });
            }
            self.serial = self.serial.wrapping_add(1);
            let number = RegionNumber(self.serial << PLACE_BITS | self.known.next_number());
            let region = Region {
                number,
                name,
                size,
                piece_log2,
                pieces_per_chunk_log2: attachment.chunk_log2.saturating_sub(piece_log2),
                is_writable,
                epoch,
                attachments: 1,
                entries: 0,
                writes: 0,
                depth: 1,
                usefulness: USEFULNESS_START,
                declined: 0,
                sources: Sources::default(),
            };
            self.known.insert(region);
            self.numbers.insert(name, number);
            return Ok(Found::Usable(number));
        };
        // Found a line above.
        let Some(region) = self.get_mut(number) else { return Ok(Found::Usable(number)) };
        let is_attached = region.attachments > 0;
        if is_attached && region.size != size {
            return Err(AttachError::OtherSize { known: region.size, size });
        }
        if is_attached && epoch < region.epoch {
            return Err(AttachError::StaleEpoch { known: region.epoch, epoch });
        }
        let is_outdated = epoch != region.epoch || size != region.size;
        region.attachments += 1;
        region.is_writable = is_writable || (is_attached && region.is_writable);
        (region.epoch, region.size) = (epoch, size);
        Ok(if is_outdated { Found::Outdated(number) } else { Found::Usable(number) })
    }

    /// Forgets the region if nothing reminds of it.
    pub(crate) fn forget_if_unused(&mut self, number: RegionNumber) {
        if self.get(number).is_some_and(Region::is_forgettable)
            && let Some(region) = self.known.remove(number.0 & PLACE)
        {
            self.numbers.remove(&region.name);
        }
    }
}
