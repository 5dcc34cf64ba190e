//! Sets of pieces of one entry.

use core::fmt;
use core::ops::Range;

/// How many pieces an entry can have.
pub(crate) const PIECES_MAX: u32 = 256;

const WORDS: usize = PIECES_MAX as usize / 64;

/// A set of the pieces of one entry, by their numbers.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PieceSet([u64; WORDS]);

impl PieceSet {
    pub(crate) const NONE: Self = Self([0; WORDS]);

    /// The pieces from `range.start` up to, but without, `range.end`.
    pub(crate) fn range(range: Range<u32>) -> Self {
        let below = |end: u32, word: usize| match end.saturating_sub(word as u32 * 64) {
            64.. => u64::MAX,
            bits => (1 << bits) - 1,
        };
        Self(core::array::from_fn(|word| below(range.end, word) & !below(range.start, word)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    pub(crate) fn with(self, other: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(crate) fn without(self, other: Self) -> Self {
        Self(core::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    pub(crate) fn includes(&self, other: Self) -> bool {
        other.without(*self).is_empty()
    }

    pub(crate) fn meets(&self, other: Self) -> bool {
        !self.and(other).is_empty()
    }

    /// The first piece at or after `from` that is in the set.
    fn next_in(&self, from: u32) -> Option<u32> {
        (from as usize / 64..WORDS).find_map(|word| {
            let skipped = from.saturating_sub(word as u32 * 64);
            let bits = self.0[word] & u64::MAX.checked_shl(skipped).unwrap_or(0);
            (bits != 0).then(|| word as u32 * 64 + bits.trailing_zeros())
        })
    }

    /// The first run of pieces that follow each other.
    pub(crate) fn first_run(&self) -> Option<Range<u32>> {
        self.run_from(0)
    }

    fn run_from(&self, from: u32) -> Option<Range<u32>> {
        let start = self.next_in(from)?;
        let end = Self::range(0..PIECES_MAX).without(*self).next_in(start).unwrap_or(PIECES_MAX);
        Some(start..end)
    }

    /// All runs of pieces that follow each other.
    pub(crate) fn runs(self) -> impl Iterator<Item = Range<u32>> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let run = self.run_from(from)?;
            from = run.end;
            Some(run)
        })
    }
}

impl fmt::Debug for PieceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.runs()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn numbers(set: PieceSet) -> BTreeSet<u32> {
        set.runs().flatten().collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set(a in 0..=PIECES_MAX, b in 0..=PIECES_MAX, c in 0..=PIECES_MAX, d in 0..=PIECES_MAX) {
            let (one, other) = (PieceSet::range(a..b), PieceSet::range(c..d));
            let (is, was) = ((a..b).collect::<BTreeSet<_>>(), (c..d).collect::<BTreeSet<_>>());
            prop_assert_eq!(numbers(one), is.clone());
            prop_assert_eq!(numbers(one.with(other)), is.union(&was).copied().collect());
            prop_assert_eq!(numbers(one.and(other)), is.intersection(&was).copied().collect());
            prop_assert_eq!(numbers(one.without(other)), is.difference(&was).copied().collect());
            prop_assert_eq!(one.count() as usize, is.len());
            prop_assert_eq!(one.includes(other), is.is_superset(&was));
            prop_assert_eq!(one.meets(other), !is.is_disjoint(&was));
            prop_assert_eq!(one.is_empty(), is.is_empty());
            prop_assert_eq!(one.first_run(), (a < b).then_some(a..b));
        }
    }
}
