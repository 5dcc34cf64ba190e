//! How the application says that it uses ranges of a region.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use super::region::Pattern;

/// The pattern that was said of each range of chunks; of the rest none was.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    /// From a chunk to the next one that is named.
    from: RwLock<BTreeMap<u32, Pattern>>,
    is_something: AtomicBool,
}

fn at(from: &BTreeMap<u32, Pattern>, chunk: u32) -> Pattern {
    from.range(..=chunk).next_back().map_or(Pattern::Normal, |(_, pattern)| *pattern)
}

impl Patterns {
    /// These chunks are used like this from now on.
    pub(super) fn set(&self, chunks: Range<u32>, pattern: Pattern) {
        if chunks.is_empty() {
            return;
        }
        let mut from = self.from.write().unwrap_or_else(PoisonError::into_inner);
        let after = at(&from, chunks.end);
        from.retain(|chunk, _| !(chunks.start..=chunks.end).contains(chunk));
        for (chunk, pattern) in [(chunks.start, pattern), (chunks.end, after)] {
            if at(&from, chunk) != pattern {
                from.insert(chunk, pattern);
            }
        }
        self.is_something.store(!from.is_empty(), Ordering::Release);
    }

    /// How a chunk is used.
    pub(super) fn of(&self, chunk: u32) -> Pattern {
        if !self.is_something.load(Ordering::Acquire) {
            return Pattern::Normal;
        }
        at(&self.from.read().unwrap_or_else(PoisonError::into_inner), chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_word_counts_for_each_chunk() {
        let (patterns, mut random) = (Patterns::default(), fastrand::Rng::with_seed(1));
        let mut model = [Pattern::Normal; 64];
        for _ in 0..2000 {
            let (one, other) = (random.u32(..=64), random.u32(..=64));
            let chunks = one.min(other)..one.max(other);
            let all = [Pattern::Normal, Pattern::Sequential, Pattern::Whole, Pattern::Random];
            let pattern = all[random.usize(..all.len())];
            patterns.set(chunks.clone(), pattern);
            model[chunks.start as usize..chunks.end as usize].fill(pattern);
            for (chunk, pattern) in (0..64).zip(model) {
                assert_eq!(patterns.of(chunk), pattern);
            }
            let changes = 1 + model.windows(2).filter(|two| two[0] != two[1]).count();
            let kept = patterns.from.read().unwrap().len();
            assert!(kept <= changes + 1, "{kept} for {changes} ranges");
        }
        patterns.set(0..64, Pattern::Normal);
        assert!(!patterns.is_something.load(Ordering::Relaxed));
    }
}
