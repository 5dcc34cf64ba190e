//! The measured functions in Rust, as a person would write them.

/// The layout that the function in C has.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Query {
    key: [u64; 2],
    tags: [u8; 8],
    slots: [u64; 7],
}

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn tag(key: [u64; 2]) -> u8 {
    ((key[0] ^ key[1].rotate_left(32)).wrapping_mul(FACTOR) >> 56) as u8
}

impl Query {
    pub(super) fn hit_in_last_slot() -> Query {
        let key = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
        let mut tags = [!tag(key); 8];
        tags[6] = tag(key);
        Query { key, tags, slots: [10, 11, 12, 13, 14, 15, 16] }
    }

    pub(super) fn answer(&self) -> u64 {
        self.slots[6]
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        [words(&self.key), self.tags.to_vec(), words(&self.slots)].concat()
    }
}

#[inline(never)]
pub(super) fn bucket_lookup(query: &Query) -> u64 {
    let tag = tag(query.key);
    for slot in 0..7 {
        if query.tags[slot] == tag {
            return query.slots[slot];
        }
    }
    0
}

#[inline(never)]
pub(super) fn mix(rounds: u64, start: u64) -> u64 {
    (0..rounds).fold(start, |sum, round| (sum ^ round).wrapping_mul(FACTOR))
}
