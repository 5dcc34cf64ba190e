//! Into which sizes blocks are rounded, and into how many chunks blocks of one size are packed.

use std::alloc::Layout;

/// The shortest block.
const LEAST: usize = 16;
/// Up to this length sizes are multiples of the shortest; then there are four to each doubling, so that no more than a fifth of
/// a block is lost.
const EVEN: usize = 4 * LEAST;
/// What of the chunks that blocks of a size are packed into may be lost at their end.
const LOST: usize = 16;

/// How long blocks of the size with this number are.
pub(super) fn bytes_of(number: usize) -> usize {
    let (group, step) = (number / 4, number % 4 + 1);
    match group.checked_sub(1) {
        None => LEAST * step,
        Some(doublings) => {
            let base = EVEN << doublings;
            base + step * (base / 4)
        }
    }
}

/// The number of the shortest size for blocks of so many bytes.
fn number_for(bytes: usize) -> usize {
    if bytes <= EVEN {
        return bytes.div_ceil(LEAST).max(1) - 1;
    }
    let power = (bytes - 1).ilog2() as usize;
    let base = 1 << power;
    let step = (bytes - base).div_ceil(base / 4);
    (power - EVEN.ilog2() as usize + 1) * 4 + step - 1
}

/// The number of the size of a block for `layout`: the shortest that is long enough and keeps the alignment. None if it is
/// longer than a chunk, and takes whole ones.
pub(super) fn number_of(layout: Layout, chunk: usize) -> Option<usize> {
    let bytes = layout.size().max(layout.align());
    if bytes > chunk {
        return None;
    }
    // Every power of two is a size, and one of them keeps the alignment.
    (number_for(bytes)..).find(|number| bytes_of(*number).is_multiple_of(layout.align()))
}

/// How many sizes there are for chunks of so many bytes.
pub(super) fn count(chunk: usize) -> usize {
    number_for(chunk) + 1
}

/// Into how many neighbouring chunks blocks of so many bytes are packed.
pub(super) fn chunks_for(bytes: usize, chunk: usize) -> u32 {
    let fits = |chunks: &u32| (*chunks as usize * chunk) % bytes * LOST <= *chunks as usize * chunk;
    (1..).find(fits).expect("an odd part of at most seven goes into as many chunks")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: [usize; 3] = [4 << 10, 64 << 10, 2 << 20];

    #[test]
    fn a_size_is_the_shortest_that_is_long_enough() {
        for chunk in CHUNKS {
            let sizes: Vec<usize> = (0..count(chunk)).map(bytes_of).collect();
            assert!(sizes.is_sorted_by(|one, next| one < next), "{sizes:?}");
            assert_eq!((sizes[0], sizes.last()), (LEAST, Some(&chunk)));
            for bytes in 1..=chunk.min(70_000) {
                let number = number_of(Layout::from_size_align(bytes, 1).unwrap(), chunk).unwrap();
                assert!(sizes[number] >= bytes && (number == 0 || sizes[number - 1] < bytes), "{bytes}");
                assert!(bytes < LEAST || (sizes[number] - bytes) * 5 <= sizes[number] + LEAST * 5, "{bytes}");
            }
        }
    }

    #[test]
    fn alignment_is_kept_and_any_length_of_a_block_finds_its_size() {
        for chunk in CHUNKS {
            for align in (0..=12).map(|power| 1 << power) {
                for bytes in [0, 1, 16, 17, 100, 1000, 3000, 4096, chunk - 1, chunk, chunk + 1] {
                    let layout = Layout::from_size_align(bytes, align).unwrap();
                    let Some(number) = number_of(layout, chunk) else {
                        assert!(bytes > chunk);
                        continue;
                    };
                    let size = bytes_of(number);
                    assert!(size >= bytes && size.is_multiple_of(align) && size <= chunk);
                    for longer in [bytes, bytes.midpoint(size), size] {
                        let longer = Layout::from_size_align(longer, align).unwrap();
                        assert_eq!(number_of(longer, chunk), Some(number), "{layout:?} as {longer:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn little_is_lost_at_the_end_of_chunks() {
        for chunk in CHUNKS {
            for bytes in (0..count(chunk)).map(bytes_of) {
                let chunks = chunks_for(bytes, chunk);
                let all = chunks as usize * chunk;
                assert!((1..=7).contains(&chunks) && all >= bytes && all % bytes * LOST <= all, "{bytes}");
            }
        }
    }
}
