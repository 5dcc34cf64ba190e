//! Fingerprints of pages, to see whether they have changed.
//!
//! Each is a pair of sums of products, Σ (m₂ᵢ + k₂ᵢ)·(m₂ᵢ₊₁ + k₂ᵢ₊₁) modulo 2¹²⁸, over the words m of the page and
//! random words k of this process, the second sum with the key shifted by two words. For any two different pages
//! one sum agrees by chance with a probability of at most 2⁻⁶⁴ (it is the universal hash NH with 64-bit words), both
//! with at most 2⁻¹²⁸, whatever the pages hold, as long as who wrote them does not know the key.

use super::space::FrameSpan;

/// A page, as fingerprints see it: the smallest page of any system this runs on.
pub const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

/// The fingerprint of a page. Many of them that are zero take no memory until they are used.
pub(super) type Fingerprint = [u128; 2];

/// The random words of this process.
pub struct FingerprintKey([u64; WORDS + 2]);

impl FingerprintKey {
    /// A key of random words.
    pub fn draw(mut random: impl FnMut() -> u64) -> Box<Self> {
        let mut key = Box::new(Self([0; WORDS + 2]));
        key.0.fill_with(&mut random);
        key
    }

    /// The fingerprint of a page of zeros.
    pub(super) fn of_zeros(&self) -> Fingerprint {
        let mut sums = [0u128; 2];
        for pair in 0..WORDS / 2 {
            let k = &self.0[2 * pair..2 * pair + 4];
            sums[0] = sums[0].wrapping_add(product([0; 2], k[0], k[1]));
            sums[1] = sums[1].wrapping_add(product([0; 2], k[2], k[3]));
        }
        sums
    }

    /// The fingerprint of a page.
    ///
    /// # Panics
    /// If it is shorter than [`PAGE`], or not aligned to a word.
    pub(super) fn of(&self, page: FrameSpan<'_>) -> Fingerprint {
        let mut words = page.bytes().words(WORDS);
        let mut sums = [0u128; 2];
        for pair in 0..WORDS / 2 {
            let (Some(first), Some(second)) = (words.next(), words.next()) else { break };
            let k = &self.0[2 * pair..2 * pair + 4];
            sums[0] = sums[0].wrapping_add(product([first, second], k[0], k[1]));
            sums[1] = sums[1].wrapping_add(product([first, second], k[2], k[3]));
        }
        sums
    }
}

#[inline]
fn product(m: [u64; 2], first: u64, second: u64) -> u128 {
    u128::from(m[0].wrapping_add(first)) * u128::from(m[1].wrapping_add(second))
}

#[cfg(test)]
mod tests {
    use outboard_contract::memory::Buffer;

    use super::*;

    /// A key that is the same for the same seed.
    fn key(seed: u64) -> Box<FingerprintKey> {
        let mut random = fastrand::Rng::with_seed(seed);
        FingerprintKey::draw(|| random.u64(..))
    }

    fn of(key: &FingerprintKey, page: &Buffer) -> Fingerprint {
        key.of(FrameSpan::new(page, 0, PAGE))
    }

    fn set(page: &Buffer, at: usize, byte: u8) {
        page.window_mut().write(at, &[byte]);
    }

    #[test]
    fn every_changed_bit_changes_it() {
        let (key, page) = (key(1), Buffer::allocate(PAGE).unwrap());
        let zero = of(&key, &page);
        assert_eq!((zero, zero), (of(&key, &page), key.of_zeros()));
        let mut seen = std::collections::HashSet::new();
        for at in 0..PAGE * 8 {
            set(&page, at / 8, 1 << (at % 8));
            let changed = of(&key, &page);
            set(&page, at / 8, 0);
            assert_ne!(changed, zero, "bit {at}");
            assert!(seen.insert(changed), "bit {at}");
        }
        // A word that changes its place.
        set(&page, 0, 1);
        let first = of(&key, &page);
        set(&page, 0, 0);
        set(&page, 8, 1);
        assert_ne!(of(&key, &page), first);
    }

    #[test]
    fn another_process_has_another_key() {
        let page = Buffer::allocate(PAGE).unwrap();
        set(&page, 7, 7);
        assert_ne!(of(&key(1), &page), of(&key(2), &page));
    }
}
