//! How the chunks of an object lie on several memory servers.
//!
//! An object that is striped is one range of addresses and a region at each server. Stripe after stripe belongs to one
//! server after the other; what a server has lies there without gaps, so that it is a region like any other.

use std::ops::Range;

/// Which stripes of an object a region has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    /// How long a stripe is: a multiple of the chunk.
    pub bytes: u64,
    /// Over how many regions the object is spread.
    pub parts: u32,
    /// Which of them this is.
    pub part: u32,
}

impl Stripes {
    /// An object that is one region.
    pub const WHOLE: Self = Self { bytes: 1 << 62, parts: 1, part: 0 };

    /// All parts of an object of `size` bytes, over as many of `servers` servers as it has stripes for, each with the size
    /// of its region.
    pub fn divide(size: u64, bytes: u64, servers: u32) -> Vec<(Self, u64)> {
        let parts = u32::try_from(size.div_ceil(bytes)).unwrap_or(u32::MAX).min(servers);
        if parts <= 1 {
            return vec![(Self::WHOLE, size)];
        }
        (0..parts).map(|part| Self { bytes, parts, part }).map(|part| (part, part.size(size))).collect()
    }

    /// How many bytes of an object of `total` bytes it has.
    pub fn size(self, total: u64) -> u64 {
        self.before(total)
    }

    /// How many of its bytes lie before a place in the object.
    fn before(self, offset: u64) -> u64 {
        let (stripe, rest) = (offset / self.bytes, offset % self.bytes);
        let (rounds, turn) = (stripe / u64::from(self.parts), stripe % u64::from(self.parts));
        let last = match turn.cmp(&u64::from(self.part)) {
            std::cmp::Ordering::Greater => self.bytes,
            std::cmp::Ordering::Equal => rest,
            std::cmp::Ordering::Less => 0,
        };
        // There is no place in an object of one part whose stripe is not the first.
        rounds * self.bytes + last
    }

    /// Where a place of its region lies in the object.
    pub(super) fn place(self, offset: u64) -> u64 {
        let (round, rest) = (offset / self.bytes, offset % self.bytes);
        (round * u64::from(self.parts) + u64::from(self.part)) * self.bytes + rest
    }

    /// To which part a place in the object belongs.
    pub fn part_of(self, offset: u64) -> u32 {
        ((offset / self.bytes) % u64::from(self.parts)) as u32
    }

    /// Which of its chunks lie within these chunks of the object.
    pub fn chunks(self, chunks: Range<u32>, chunk_bytes: usize) -> Range<u32> {
        let bytes = chunk_bytes as u64;
        let before = |chunk: u32| (self.before(u64::from(chunk) * bytes) / bytes) as u32;
        before(chunks.start)..before(chunks.end)
    }

    /// The chunk of its region at a place of the object that belongs to it.
    pub fn chunk(self, offset: u64, chunk_bytes: usize) -> u32 {
        (self.before(offset) / chunk_bytes as u64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = 4096;

    #[test]
    fn every_chunk_is_in_one_part_and_is_found_where_it_lies() {
        for (size, stripe, servers) in [
            (1, 2, 3),
            (CHUNK as u64 * 7, 1, 2),
            (CHUNK as u64 * 100 - 5, 8, 3),
            (CHUNK as u64 * 48, 8, 3),
            (CHUNK as u64 * 17, 8, 4),
        ] {
            let parts = Stripes::divide(size, stripe * CHUNK as u64, servers);
            assert_eq!(parts.iter().map(|(_, size)| size).sum::<u64>(), size);
            assert!(parts.iter().all(|(_, size)| *size > 0), "{parts:?}");
            let mut next = vec![0; parts.len()];
            for chunk in 0..size.div_ceil(CHUNK as u64) {
                let offset = chunk * CHUNK as u64;
                let part = parts[0].0.part_of(offset) as usize;
                let (stripes, part_size) = parts[part];
                let index = stripes.chunk(offset + 7, CHUNK);
                assert_eq!(index, next[part], "what a part has lies without gaps");
                assert_eq!(stripes.place(u64::from(index) * CHUNK as u64), offset);
                let (left, left_in_part) = (size - offset, part_size - u64::from(index) * CHUNK as u64);
                assert_eq!(
                    left.min(CHUNK as u64),
                    left_in_part.min(CHUNK as u64),
                    "its last chunk ends where it does"
                );
                next[part] += 1;
            }
        }
    }

    #[test]
    fn a_span_of_an_object_is_a_span_of_each_part() {
        let parts = Stripes::divide(CHUNK as u64 * 40, 4 * CHUNK as u64, 3);
        for (start, end) in [(0, 40), (3, 5), (4, 8), (11, 30), (9, 9)] {
            let mut found = 0;
            for (stripes, _) in &parts {
                for index in stripes.chunks(start..end, CHUNK) {
                    let place = stripes.place(u64::from(index) * CHUNK as u64) / CHUNK as u64;
                    assert!((u64::from(start)..u64::from(end)).contains(&place));
                    found += 1;
                }
            }
            assert_eq!(found, end - start);
        }
        assert_eq!(Stripes::WHOLE.chunks(3..9, CHUNK), 3..9);
    }

    #[test]
    fn what_has_one_stripe_is_not_divided() {
        assert_eq!(Stripes::divide(100, 4096, 2), [(Stripes::WHOLE, 100)]);
        assert_eq!(Stripes::divide(1 << 40, 4096, 1), [(Stripes::WHOLE, 1 << 40)]);
    }
}
