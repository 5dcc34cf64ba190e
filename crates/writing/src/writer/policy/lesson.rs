//! What a write will teach when it has ended.

use super::frontier::Zone;
use super::heat::HASH_UNUSED;

/// What a write will teach when it has ended, in one word: a decision returns it with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lesson {
    /// The hash of the page, and where that has nothing to say, the rest.
    bits: u64,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing that teaches anything.
    Nothing,
    Unload,
    /// Offloaded; the page's former write was not.
    Cold,
    /// Offloaded, as the page's former write was.
    Warm,
    /// Offloaded by the way, without a look at its page.
    Sample,
}

/// How many bits say of which size a write is.
pub(super) const CLASS_BITS: u32 = 2;
const ZONE_BITS: u32 = 2;
const KIND_BITS: u32 = 3;

const CLASS_AT: u32 = HASH_UNUSED.start;
const ZONE_AT: u32 = CLASS_AT + CLASS_BITS;
const KIND_AT: u32 = ZONE_AT + ZONE_BITS;
const END: u32 = KIND_AT + KIND_BITS;
const OURS: u64 = (1 << END) - (1 << CLASS_AT);
const _: () = assert!(END <= HASH_UNUSED.end);

impl Lesson {
    pub(crate) const NONE: Self = Self::of_size(0, Kind::Nothing);

    /// What is learnt of writes of a size, and of no page.
    pub(super) const fn of_size(class: usize, kind: Kind) -> Self {
        Self::of_page(0, class, kind, Zone::Beyond)
    }

    #[inline]
    pub(super) const fn of_page(hash: u64, class: usize, kind: Kind, zone: Zone) -> Self {
        debug_assert!(class < 1 << CLASS_BITS);
        let ours = (class as u64) << CLASS_AT | (zone as u64) << ZONE_AT | (kind as u64) << KIND_AT;
        Self { bits: hash & !OURS | ours }
    }

    #[inline]
    const fn part(self, at: u32, bits: u32) -> u64 {
        (self.bits >> at) & ((1 << bits) - 1)
    }

    #[inline]
    pub(super) const fn class(self) -> usize {
        self.part(CLASS_AT, CLASS_BITS) as usize
    }

    #[inline]
    pub(super) const fn kind(self) -> Kind {
        match self.part(KIND_AT, KIND_BITS) {
            1 => Kind::Unload,
            2 => Kind::Cold,
            3 => Kind::Warm,
            4 => Kind::Sample,
            _ => Kind::Nothing,
        }
    }

    #[inline]
    pub(super) const fn zone(self) -> Zone {
        match self.part(ZONE_AT, ZONE_BITS) {
            1 => Zone::Scout,
            2 => Zone::Edge,
            3 => Zone::Core,
            _ => Zone::Beyond,
        }
    }

    /// The hash of its page, as far as the table of pages needs it.
    #[inline]
    pub(super) const fn hash(self) -> u64 {
        self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::policy::heat::tests::same_home;

    #[test]
    fn everything_comes_out_as_it_went_in() {
        let kinds = [Kind::Nothing, Kind::Unload, Kind::Cold, Kind::Warm, Kind::Sample];
        let zones = [Zone::Beyond, Zone::Scout, Zone::Edge, Zone::Core];
        for hash in [0, u64::MAX, 0x0123_4567_89AB_CDEF] {
            for kind in kinds {
                for zone in zones {
                    for class in 0..1 << CLASS_BITS {
                        let lesson = Lesson::of_page(hash, class, kind, zone);
                        assert_eq!((lesson.class(), lesson.kind()), (class, kind));
                        assert_eq!(lesson.zone(), zone);
                        assert!(same_home(lesson.hash(), hash));
                    }
                }
            }
        }
    }
}
