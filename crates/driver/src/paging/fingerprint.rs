//! Fingerprints of pages, to see whether they have changed.
//!
//! Each is a pair of sums of products, Σ (m₂ᵢ + k₂ᵢ)·(m₂ᵢ₊₁ + k₂ᵢ₊₁) modulo 2¹²⁸, over the words m of the page and
//! random words k of this process, the second sum with the key shifted by two words. For any two different pages
//! one sum agrees by chance with a probability of at most 2⁻⁶⁴ (it is the universal hash NH with 64-bit words), both
//! with at most 2⁻¹²⁸, whatever the pages hold, as long as who wrote them does not know the key.

/// A page, as fingerprints see it: the smallest page of any system this runs on.
pub(super) const PAGE: usize = 4096;
const WORDS: usize = PAGE / 8;

/// What a page was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint([u128; 2]);

/// The random words of this process.
pub(super) struct FingerprintKey([u64; WORDS + 2]);

impl FingerprintKey {
    /// Draws a key.
    pub(super) fn draw() -> Result<Box<Self>, rustix::io::Errno> {
        let mut key = Box::new(Self([0; WORDS + 2]));
        for word in &mut key.0 {
            let mut bytes = [0; 8];
            let mut filled = 0;
            while filled < bytes.len() {
                filled +=
                    rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
            }
            *word = u64::from_ne_bytes(bytes);
        }
        Ok(key)
    }

    /// The fingerprint of a page.
    ///
    /// # Safety
    ///
    /// `page` is aligned to 8 bytes, readable for [`PAGE`] bytes, and nobody writes there meanwhile.
    pub(super) unsafe fn of(&self, page: *const u8) -> Fingerprint {
        let page = page.cast::<[u64; 2]>();
        let mut sums = [0u128; 2];
        for pair in 0..WORDS / 2 {
            // SAFETY: by the contract above.
            let m = unsafe { page.add(pair).read() };
            let k = &self.0[2 * pair..2 * pair + 4];
            sums[0] = sums[0].wrapping_add(product(m, k[0], k[1]));
            sums[1] = sums[1].wrapping_add(product(m, k[2], k[3]));
        }
        Fingerprint(sums)
    }
}

#[inline]
fn product(m: [u64; 2], first: u64, second: u64) -> u128 {
    u128::from(m[0].wrapping_add(first)) * u128::from(m[1].wrapping_add(second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(8))]
    struct Page([u8; PAGE]);

    fn of(key: &FingerprintKey, page: &Page) -> Fingerprint {
        // SAFETY: a page of ours.
        unsafe { key.of(page.0.as_ptr()) }
    }

    #[test]
    fn every_changed_bit_changes_it() {
        let key = FingerprintKey::draw().unwrap();
        let mut page = Page([0; PAGE]);
        let zero = of(&key, &page);
        assert_eq!(zero, of(&key, &page));
        let mut seen = std::collections::HashSet::new();
        for at in 0..PAGE * 8 {
            page.0[at / 8] ^= 1 << (at % 8);
            let changed = of(&key, &page);
            page.0[at / 8] ^= 1 << (at % 8);
            assert_ne!(changed, zero, "bit {at}");
            assert!(seen.insert(changed.0), "bit {at}");
        }
        // A word that changes its place.
        page.0[0] = 1;
        let first = of(&key, &page);
        (page.0[0], page.0[8]) = (0, 1);
        assert_ne!(of(&key, &page), first);
    }

    #[test]
    fn another_process_has_another_key() {
        let page = Page([7; PAGE]);
        assert_ne!(of(&FingerprintKey::draw().unwrap(), &page), of(&FingerprintKey::draw().unwrap(), &page));
    }
}
