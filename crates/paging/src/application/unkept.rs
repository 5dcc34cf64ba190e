//! Which chunks of a region the snapshots of forked children have no copy of, though they need what the server has.

use std::sync::atomic::{AtomicU64, Ordering};

/// Two bits for each chunk of a region that this process writes.
#[derive(Debug)]
pub(super) struct Unkept {
    /// The server's bytes of the chunk are right for a snapshot that has no copy of it.
    bits: Box<[AtomicU64]>,
    /// A copy was asked for.
    asked: Box<[AtomicU64]>,
}

impl Unkept {
    /// Of so many chunks, of which no snapshot needs any yet. Without snapshots there is nothing to know.
    pub(super) fn new(chunks: u32, is_used: bool) -> Self {
        let words = if is_used { (chunks as usize).div_ceil(64) } else { 0 };
        let none = || std::iter::repeat_with(AtomicU64::default).take(words).collect();
        Self { bits: none(), asked: none() }
    }

    /// A snapshot begins: it has no copies.
    pub(super) fn insert_all(&self) {
        self.bits.iter().for_each(|word| word.store(u64::MAX, Ordering::Release));
    }

    /// All snapshots can do without the bytes that the server has of a chunk.
    pub(super) fn remove(&self, index: u32) {
        for bits in [&self.bits, &self.asked] {
            if let Some(word) = bits.get(index as usize / 64) {
                word.fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
            }
        }
    }

    /// Whether a snapshot needs what the server has of a chunk.
    pub(super) fn has(&self, index: u32) -> bool {
        let word = self.bits.get(index as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (index % 64) & 1 == 1)
    }

    /// Whether a copy was asked for.
    pub(super) fn is_asked(&self, index: u32) -> bool {
        let word = self.asked.get(index as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Acquire) >> (index % 64) & 1 == 1)
    }

    /// A copy is asked for.
    pub(super) fn ask(&self, index: u32) {
        if let Some(word) = self.asked.get(index as usize / 64) {
            word.fetch_or(1 << (index % 64), Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_needed_from_the_fork_on_until_it_is_made() {
        let unkept = Unkept::new(130, true);
        assert!(!(0..130).any(|index| unkept.has(index)));
        unkept.insert_all();
        unkept.ask(129);
        assert!((0..130).all(|index| unkept.has(index) && unkept.is_asked(index) == (index == 129)));
        unkept.remove(129);
        unkept.remove(3);
        assert!((0..130).all(|index| unkept.has(index) != [3, 129].contains(&index)));
        assert!(!unkept.is_asked(129));
        unkept.insert_all();
        assert!(unkept.has(3));
    }

    #[test]
    fn without_snapshots_no_copy_is_needed() {
        let unkept = Unkept::new(130, false);
        unkept.insert_all();
        unkept.ask(5);
        assert!(!unkept.has(5) && !unkept.is_asked(5));
    }
}
