//! A short fingerprint of a long sequence.

use std::fmt;

/// A fingerprint of everything that was added, in order. Not for adversaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(u64);

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Digest {
    /// Of nothing.
    pub const fn new() -> Self {
        Self(OFFSET)
    }

    /// Adds a number.
    #[inline]
    pub const fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(FACTOR);
    }

    /// Adds bytes, and how many they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let last = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        self.word(last);
        self.word(bytes.len() as u64);
    }

    /// As a number.
    pub const fn value(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(FACTOR);
        mixed ^ (mixed >> 29)
    }
}

impl Default for Digest {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.value())
    }
}

/// A sequence of chances that belongs to one use of one seed: what is drawn elsewhere does not change it.
pub fn chances(seed: u64, purpose: &str) -> fastrand::Rng {
    let mut digest = Digest::new();
    digest.word(seed);
    digest.bytes(purpose.as_bytes());
    fastrand::Rng::with_seed(digest.value())
}
