//! A bit per vertex, set by several workers at once.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many bits a word has.
pub(crate) const WORD: usize = u64::BITS as usize;

/// A set of vertices. It lies in the memory of the process, so that asking it never is a far access.
#[derive(Debug)]
pub(crate) struct Bitmap {
    words: Vec<AtomicU64>,
    bits: usize,
}

impl Bitmap {
    /// An empty set out of so many vertices.
    pub(crate) fn new(bits: usize) -> Self {
        let mut words = Vec::new();
        words.resize_with(bits.div_ceil(WORD), AtomicU64::default);
        Self { words, bits }
    }

    /// The set of these vertices.
    pub(crate) fn of(vertices: &[u32], bits: usize) -> Self {
        let mut set = Self::new(bits);
        set.insert(vertices);
        set
    }

    /// Adds vertices while no other thread does.
    pub(crate) fn insert(&mut self, vertices: &[u32]) {
        for &vertex in vertices {
            *self.words[vertex as usize / WORD].get_mut() |= 1 << (vertex as usize % WORD);
        }
    }

    /// Takes vertices out.
    pub(crate) fn remove(&mut self, vertices: &[u32]) {
        for &vertex in vertices {
            *self.words[vertex as usize / WORD].get_mut() &= !(1 << (vertex as usize % WORD));
        }
    }

    /// Whether a vertex is in it.
    pub(crate) fn has(&self, vertex: u32) -> bool {
        let word = self.words[vertex as usize / WORD].load(Ordering::Relaxed);
        word >> (vertex as usize % WORD) & 1 != 0
    }

    /// Adds a vertex; whether it was this call that added it.
    pub(crate) fn add(&self, vertex: u32) -> bool {
        let bit = 1 << (vertex as usize % WORD);
        let word = &self.words[vertex as usize / WORD];
        // Most are there already, and a plain load leaves the word in all caches that hold it.
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }

    /// A word of 64 vertices.
    pub(crate) fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    /// The vertices of a word that are not in the set.
    pub(crate) fn missing(&self, index: usize) -> u64 {
        let missing = !self.word(index);
        match self.bits - index * WORD {
            rest @ ..WORD => missing & ((1 << rest) - 1),
            _ => missing,
        }
    }

    /// How many vertices are not in the set.
    pub(crate) fn left(&self) -> usize {
        self.bits - self.count()
    }

    /// Replaces a word of 64 vertices, which no other thread may change meanwhile.
    pub(crate) fn set_word(&self, index: usize, word: u64) {
        self.words[index].store(word, Ordering::Relaxed);
    }

    /// All of its vertices, in ascending order.
    pub(crate) fn list(&self) -> Vec<u32> {
        let mut list = Vec::with_capacity(self.count());
        list.extend(self.iter());
        list
    }

    /// Its vertices, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        let words = self.words.iter().enumerate();
        words.flat_map(|(index, word)| {
            ones(word.load(Ordering::Relaxed)).map(move |bit| (index * WORD + bit) as u32)
        })
    }

    /// Out of how many vertices it is.
    pub(crate) fn len(&self) -> usize {
        self.bits
    }

    /// How many vertices are in it.
    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }
}

/// Which bits of a word are set, from the lowest.
pub(crate) fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros() as usize;
        word &= word.wrapping_sub(1);
        (bit < WORD).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_keeps_what_was_added() {
        for bits in [1, 63, 64, 65, 200] {
            let members = Vec::from_iter((0..bits as u32).filter(|vertex| vertex % 3 == 0));
            let mut set = Bitmap::of(&members, bits);
            assert_eq!((set.list(), set.count()), (members.clone(), members.len()));
            assert!((0..bits as u32).all(|vertex| set.has(vertex) == (vertex % 3 == 0)));
            let missing: usize =
                (0..bits.div_ceil(WORD)).map(|word| set.missing(word).count_ones() as usize).sum();
            assert_eq!(missing, bits - members.len());
            assert!((0..bits as u32).all(|vertex| set.add(vertex) == (vertex % 3 != 0)));
            assert_eq!(set.count(), bits);
            set.remove(&members);
            assert!((0..bits as u32).all(|vertex| set.has(vertex) == (vertex % 3 != 0)));
        }
        assert!(Bitmap::new(0).list().is_empty());
    }

    #[test]
    fn ones_are_told_from_the_lowest() {
        assert_eq!(ones(0).count(), 0);
        assert_eq!(Vec::from_iter(ones(1 << 63 | 5)), [0, 2, 63]);
    }
}
