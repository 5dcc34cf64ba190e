//! Hashing of chunks.

use std::hash::Hasher;

/// Chunk numbers are small and dense; one multiplication spreads them.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.0 = (self.0.rotate_left(32) ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
