//! The sizes of blocks in slabs: four from each power of two to the next, so that a block is rounded up by a fifth at most.

use crate::directory::GRAIN;
use crate::far::CHUNK;

/// Blocks of more bytes have chunks of their own.
pub(super) const LONGEST: usize = 256 << 10;
/// Up to here every multiple of the grain is a size.
const FINE: usize = 128;
const FINE_COUNT: usize = FINE / GRAIN;
const FINE_BITS: u32 = FINE.ilog2();
/// How many sizes there are.
pub(super) const COUNT: usize = FINE_COUNT + (LONGEST.ilog2() - FINE_BITS) as usize * 4;

/// The number of the smallest size that has so many bytes, of which there are at most [`LONGEST`].
#[inline]
pub(super) fn class_of(bytes: usize) -> usize {
    if bytes <= FINE {
        return bytes.max(1).div_ceil(GRAIN) - 1;
    }
    let bits = (bytes - 1).ilog2();
    let quarter = (bytes - 1) >> (bits - 2) & 3;
    FINE_COUNT + (bits - FINE_BITS) as usize * 4 + quarter
}

/// How many bytes a block of a size has.
#[inline]
pub(super) const fn bytes_of(class: usize) -> usize {
    if class < FINE_COUNT {
        return (class + 1) * GRAIN;
    }
    let (doublings, quarter) = ((class - FINE_COUNT) / 4, (class - FINE_COUNT) % 4);
    (FINE << doublings) / 4 * (5 + quarter)
}

/// The number of the smallest size of so many bytes all of whose blocks are aligned like this, if slabs have any.
pub(super) fn aligned_class_of(bytes: usize, align: usize) -> Option<usize> {
    if align > CHUNK {
        return None;
    }
    (bytes <= LONGEST)
        .then(|| (class_of(bytes)..COUNT).find(|class| bytes_of(*class).is_multiple_of(align)))?
}

/// How many chunks a slab of a size has: room for eight blocks at least.
pub(super) const fn chunks_of(class: usize) -> u32 {
    (bytes_of(class) * 8).div_ceil(CHUNK) as u32
}

/// How many blocks a slab of a size has.
pub(super) const fn blocks_of(class: usize) -> usize {
    chunks_of(class) as usize * CHUNK / bytes_of(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_length_has_the_smallest_size_that_holds_it() {
        for bytes in 1..=LONGEST {
            let class = class_of(bytes);
            assert!(bytes_of(class) >= bytes && (class == 0 || bytes_of(class - 1) < bytes), "{bytes}");
            assert!(bytes <= FINE || bytes_of(class) <= bytes + bytes / 4 + GRAIN, "{bytes}");
        }
        assert_eq!((class_of(LONGEST), bytes_of(COUNT - 1)), (COUNT - 1, LONGEST));
        for class in 0..COUNT {
            assert!(bytes_of(class).is_multiple_of(GRAIN) && blocks_of(class) >= 8);
            assert!(blocks_of(class) <= CHUNK / GRAIN);
        }
    }

    #[test]
    fn aligned_blocks_have_a_size_that_keeps_the_alignment() {
        for align in (4..=16).map(|bits| 1 << bits) {
            for bytes in [1, 100, 3000, 65_000, 200_000] {
                let class = aligned_class_of(bytes.max(align), align).unwrap();
                assert!(bytes_of(class) >= bytes && bytes_of(class).is_multiple_of(align));
            }
        }
        assert_eq!(aligned_class_of(1 << 17, 1 << 17), None);
    }
}
