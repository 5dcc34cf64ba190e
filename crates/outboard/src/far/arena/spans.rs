//! Which chunks of an arena no block has.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Chunks that are side by side, by their numbers in the arena.
pub(super) type Chunks = Range<u32>;

/// Ranges of chunks that neither overlap nor touch.
#[derive(Debug, Default)]
struct Ranges {
    ends: BTreeMap<u32, u32>,
    total: u32,
}

impl Ranges {
    /// Adds chunks of which there are none yet. Returns the range that they are in then.
    fn insert(&mut self, chunks: &Chunks) -> Chunks {
        let mut whole = chunks.clone();
        if let Some((&start, &end)) = self.ends.range(..chunks.start).next_back()
            && end == chunks.start
        {
            self.ends.remove(&start);
            whole.start = start;
        }
        if let Some(end) = self.ends.remove(&chunks.end) {
            whole.end = end;
        }
        self.ends.insert(whole.start, whole.end);
        self.total += chunks.len() as u32;
        whole
    }

    /// Takes what there is of these chunks away. Returns the ranges that they were in.
    fn remove(&mut self, chunks: &Chunks) -> Vec<Chunks> {
        let first = self.ends.range(..chunks.start).next_back().map_or(chunks.start, |(start, _)| *start);
        let near = self.ends.range(first..chunks.end).map(|(start, end)| *start..*end);
        let found: Vec<Chunks> = near.filter(|range| range.end > chunks.start).collect();
        for range in &found {
            self.ends.remove(&range.start);
            self.total -= range.len() as u32;
            for rest in [range.start..chunks.start.max(range.start), chunks.end.min(range.end)..range.end] {
                if !rest.is_empty() {
                    self.total += rest.len() as u32;
                    self.ends.insert(rest.start, rest.end);
                }
            }
        }
        found
    }
}

/// Chunks for a block or for a pack of blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) chunks: Chunks,
    /// Whether all their bytes are zero.
    pub(super) is_zero: bool,
}

/// The chunks of an arena that no block has. Some of them are *stale*: they have been used, hold bytes that are of no use, and
/// are to be discarded.
#[derive(Debug)]
pub(super) struct Spans {
    free: Ranges,
    /// Those that are free, by their lengths.
    lengths: BTreeSet<(u32, u32)>,
    stale: Ranges,
}

impl Spans {
    /// So many chunks, all of them zero.
    pub(super) fn new(chunks: u32) -> Self {
        let mut spans = Self { free: Ranges::default(), lengths: BTreeSet::new(), stale: Ranges::default() };
        spans.add(&(0..chunks));
        spans
    }

    fn add(&mut self, chunks: &Chunks) {
        let whole = self.free.insert(chunks);
        for part in [whole.start..chunks.start, chunks.end..whole.end] {
            self.lengths.remove(&(part.len() as u32, part.start));
        }
        self.lengths.insert((whole.len() as u32, whole.start));
    }

    fn subtract(&mut self, chunks: &Chunks) {
        for range in self.free.remove(chunks) {
            self.lengths.remove(&(range.len() as u32, range.start));
            for rest in [range.start..chunks.start.max(range.start), chunks.end.min(range.end)..range.end] {
                if !rest.is_empty() {
                    self.lengths.insert((rest.len() as u32, rest.start));
                }
            }
        }
    }

    /// Takes so many chunks, from the shortest range that has as many.
    pub(super) fn take(&mut self, count: u32) -> Option<Taken> {
        let (_, start) = *self.lengths.range((count, 0)..).next()?;
        Some(self.take_these(start..start + count))
    }

    /// Takes the chunks that begin here, if they are free.
    pub(super) fn take_at(&mut self, chunks: Chunks) -> Option<Taken> {
        let (_, end) = self.free.ends.range(..=chunks.start).next_back()?;
        (*end >= chunks.end).then(|| self.take_these(chunks))
    }

    fn take_these(&mut self, chunks: Chunks) -> Taken {
        self.subtract(&chunks);
        let is_zero = self.stale.remove(&chunks).is_empty();
        Taken { chunks, is_zero }
    }

    /// Gives chunks back that have been used.
    pub(super) fn give(&mut self, chunks: &Chunks) {
        self.add(chunks);
        self.stale.insert(chunks);
    }

    /// How many chunks are stale.
    pub(super) fn stale(&self) -> u32 {
        self.stale.total
    }

    /// How many chunks are free, and how many of them are side by side at most.
    pub(super) fn free(&self) -> (u32, u32) {
        (self.free.total, self.lengths.last().map_or(0, |(len, _)| *len))
    }

    /// Takes all that are stale, to be discarded.
    pub(super) fn take_stale(&mut self) -> Vec<Chunks> {
        let stale = std::mem::take(&mut self.stale);
        let ranges: Vec<Chunks> = stale.ends.into_iter().map(|(start, end)| start..end).collect();
        ranges.iter().for_each(|range| self.subtract(range));
        ranges
    }

    /// Gives chunks back that have been discarded.
    pub(super) fn give_zero(&mut self, chunks: &Chunks) {
        self.add(chunks);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Is {
        Zero,
        Stale,
        Used,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u32),
        TakeAt(u32, u32),
        Give(usize),
        Discard,
    }

    const CHUNKS: u32 = 48;

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..9u32).prop_map(Step::Take),
            2 => (0..CHUNKS, 1..5u32).prop_map(|(start, count)| Step::TakeAt(start, count)),
            5 => any::<usize>().prop_map(Step::Give),
            1 => Just(Step::Discard),
        ]
    }

    fn check(spans: &Spans, model: &[Is]) {
        let listed =
            |ranges: &Ranges| ranges.ends.iter().flat_map(|(start, end)| *start..*end).collect::<Vec<_>>();
        let those = |wanted: &dyn Fn(Is) -> bool| -> Vec<u32> {
            (0..CHUNKS).filter(|chunk| wanted(model[*chunk as usize])).collect()
        };
        assert_eq!(listed(&spans.free), those(&|is| is != Is::Used));
        assert_eq!(listed(&spans.stale), those(&|is| is == Is::Stale));
        assert_eq!(
            (spans.free().0, spans.stale()),
            (listed(&spans.free).len() as u32, listed(&spans.stale).len() as u32)
        );
        let lengths: BTreeSet<(u32, u32)> =
            spans.free.ends.iter().map(|(start, end)| (end - start, *start)).collect();
        assert_eq!(spans.lengths, lengths);
        assert!(spans.free.ends.iter().zip(spans.free.ends.iter().skip(1)).all(|(one, next)| one.1 < next.0));
    }

    proptest! {
        #[test]
        fn each_chunk_is_free_stale_or_used_as_in_a_model(steps in vec(step(), 0..120)) {
            let mut spans = Spans::new(CHUNKS);
            let mut model = [Is::Zero; CHUNKS as usize];
            let mut held: Vec<Chunks> = Vec::new();
            for step in steps {
                let taken = match step {
                    Step::Take(count) => {
                        let longest = spans.free().1;
                        let taken = spans.take(count);
                        prop_assert_eq!(taken.is_some(), longest >= count);
                        taken
                    }
                    Step::TakeAt(start, count) => {
                        let end = start + count;
                        let is_free = end <= CHUNKS && (start..end).all(|at| model[at as usize] != Is::Used);
                        let taken = spans.take_at(start..end);
                        prop_assert_eq!(taken.is_some(), is_free);
                        taken
                    }
                    Step::Give(which) => {
                        if !held.is_empty() {
                            let chunks = held.swap_remove(which % held.len());
                            spans.give(&chunks);
                            chunks.for_each(|chunk| model[chunk as usize] = Is::Stale);
                        }
                        None
                    }
                    Step::Discard => {
                        let stale = spans.take_stale();
                        // Meanwhile no block gets them.
                        for chunks in &stale {
                            prop_assert!(spans.take_at(chunks.clone()).is_none());
                        }
                        for chunks in stale {
                            spans.give_zero(&chunks);
                            chunks.for_each(|chunk| model[chunk as usize] = Is::Zero);
                        }
                        None
                    }
                };
                if let Some(Taken { chunks, is_zero }) = taken {
                    prop_assert_eq!(is_zero, chunks.clone().all(|at| model[at as usize] == Is::Zero));
                    prop_assert!(chunks.clone().all(|at| model[at as usize] != Is::Used));
                    chunks.clone().for_each(|chunk| model[chunk as usize] = Is::Used);
                    held.push(chunks);
                }
                check(&spans, &model);
            }
        }
    }
}
