//! Sets of addresses, as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers, kept as ranges that do not touch.
#[derive(Debug)]
pub(crate) struct Ranges {
    ends: BTreeMap<usize, usize>,
}

impl Ranges {
    /// Nothing.
    pub(crate) const fn empty() -> Self {
        Self { ends: BTreeMap::new() }
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let mut all = range.clone();
        while let Some((start, end)) =
            self.ends.range(..=all.end).next_back().map(|(start, end)| (*start, *end))
        {
            if end < all.start {
                break;
            }
            self.ends.remove(&start);
            all = all.start.min(start)..all.end.max(end);
        }
        self.ends.insert(all.start, all.end);
    }

    /// Takes a range out. Returns the parts of it that were in.
    pub(crate) fn remove(&mut self, range: &Range<usize>) -> Vec<Range<usize>> {
        let parts = self.parts(range);
        for part in &parts {
            let (start, end) = self.ends.range(..=part.start).next_back().expect("a part is of a range");
            let (start, end) = (*start, *end);
            self.ends.remove(&start);
            if start < part.start {
                self.ends.insert(start, part.start);
            }
            if part.end < end {
                self.ends.insert(part.end, end);
            }
        }
        parts
    }

    /// The parts of a range that are in.
    pub(crate) fn parts(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        if range.is_empty() {
            return Vec::new();
        }
        let first = self.ends.range(..=range.start).next_back().map_or(range.start, |(start, _)| *start);
        let near = self.ends.range(first..range.end).map(|(start, end)| {
            let part = (*start).max(range.start)..(*end).min(range.end);
            part
        });
        near.filter(|part| !part.is_empty()).collect()
    }

    /// Whether any of a range is in.
    pub(crate) fn touches(&self, range: &Range<usize>) -> bool {
        let last = self.ends.range(..range.end).next_back();
        !range.is_empty() && last.is_some_and(|(_, end)| *end > range.start)
    }

    /// Whether all of a range is in.
    pub(crate) fn covers(&self, range: &Range<usize>) -> bool {
        let last = self.ends.range(..=range.start).next_back();
        range.is_empty() || last.is_some_and(|(_, end)| *end >= range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_set() {
        let (mut ranges, mut model, mut state) = (Ranges::empty(), [false; 100], 3_u64);
        let mut next = move |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below.max(1)
        };
        for _ in 0..50_000 {
            let start = next(100);
            let range = start..start + next(100 - start);
            let inside = model[range.clone()].to_vec();
            assert_eq!(ranges.touches(&range), inside.contains(&true));
            assert_eq!(ranges.covers(&range), !inside.contains(&false));
            let parts: Vec<usize> = ranges.parts(&range).into_iter().flatten().collect();
            let wanted: Vec<usize> = range.clone().filter(|at| model[*at]).collect();
            assert_eq!(parts, wanted);
            if next(2) == 0 {
                ranges.insert(range.clone());
                model[range].fill(true);
            } else {
                let removed: Vec<usize> = ranges.remove(&range).into_iter().flatten().collect();
                assert_eq!(removed, wanted);
                model[range].fill(false);
            }
        }
    }
}
