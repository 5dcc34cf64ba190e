//! Which chunks of a part of far memory are free: address space, in units of chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The state of free chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// They are zero, and take no memory.
    Zero,
    /// Something is in them that is not needed.
    Stale,
}

/// Chunks that were taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) start: u32,
    pub(crate) content: Content,
}

/// The free chunks.
#[derive(Debug)]
pub(crate) struct Room {
    by_start: BTreeMap<u32, (u32, Content)>,
    /// Lengths and starts, of those that are zero and those that are stale.
    by_len: [BTreeSet<(u32, u32)>; 2],
    stale: u32,
}

impl Room {
    /// Nothing.
    pub(crate) const fn empty() -> Self {
        Self { by_start: BTreeMap::new(), by_len: [BTreeSet::new(), BTreeSet::new()], stale: 0 }
    }

    /// How many stale chunks there are.
    pub(crate) fn stale(&self) -> u32 {
        self.stale
    }

    /// Takes chunks with this content, from the shortest range that has so many.
    pub(crate) fn take(&mut self, count: u32, content: Content) -> Option<Taken> {
        let (len, start) = *self.by_len[content as usize].range((count, 0)..).next()?;
        self.remove(start, len, content);
        self.insert(start + count, len - count, content);
        Some(Taken { start, content })
    }

    /// Takes these chunks if all of them are free, and zero if that is asked for.
    pub(crate) fn take_at(&mut self, chunks: Range<u32>, is_zero: bool) -> bool {
        let parts = self.parts(&chunks);
        let covered: u32 = parts.iter().map(|(part, _)| part.len() as u32).sum();
        if covered as usize != chunks.len()
            || (is_zero && parts.iter().any(|(_, content)| *content == Content::Stale))
        {
            return false;
        }
        self.take_free(chunks);
        true
    }

    /// Takes those of these chunks that are free.
    pub(crate) fn take_free(&mut self, chunks: Range<u32>) {
        for (part, content) in self.parts(&chunks) {
            let (start, (len, _)) = self.by_start.range(..=part.start).next_back().expect("a part is of one");
            let (start, len) = (*start, *len);
            self.remove(start, len, content);
            self.insert(start, part.start - start, content);
            self.insert(part.end, start + len - part.end, content);
        }
    }

    /// The parts of a range that are free.
    fn parts(&self, chunks: &Range<u32>) -> Vec<(Range<u32>, Content)> {
        let first =
            self.by_start.range(..=chunks.start).next_back().map_or(chunks.start, |(start, _)| *start);
        let near = self.by_start.range(first..chunks.end.max(first));
        let part = |(start, (len, content)): (&u32, &(u32, Content))| {
            ((*start).max(chunks.start)..(start + len).min(chunks.end), *content)
        };
        near.map(part).filter(|(part, _)| !part.is_empty()).collect()
    }

    /// Gives chunks back.
    pub(crate) fn give(&mut self, chunks: Range<u32>, content: Content) {
        let (mut start, mut len) = (chunks.start, chunks.len() as u32);
        if let Some((before, (before_len, is))) = self.by_start.range(..start).next_back()
            && before + before_len == start
            && *is == content
        {
            let (before, before_len) = (*before, *before_len);
            self.remove(before, before_len, content);
            (start, len) = (before, before_len + len);
        }
        if let Some((after_len, is)) = self.by_start.get(&(start + len))
            && *is == content
        {
            let after_len = *after_len;
            self.remove(start + len, after_len, content);
            len += after_len;
        }
        self.insert(start, len, content);
    }

    /// Takes a stale range, the longest, to be discarded.
    pub(crate) fn take_stale(&mut self) -> Option<Range<u32>> {
        let (len, start) = *self.by_len[Content::Stale as usize].last()?;
        self.remove(start, len, Content::Stale);
        Some(start..start + len)
    }

    fn insert(&mut self, start: u32, len: u32, content: Content) {
        if len > 0 {
            self.by_start.insert(start, (len, content));
            self.by_len[content as usize].insert((len, start));
            self.stale += if content == Content::Stale { len } else { 0 };
        }
    }

    fn remove(&mut self, start: u32, len: u32, content: Content) {
        self.by_start.remove(&start);
        self.by_len[content as usize].remove(&(len, start));
        self.stale -= if content == Content::Stale { len } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 200;

    fn full() -> Room {
        let mut room = Room::empty();
        room.give(0..COUNT as u32, Content::Zero);
        room
    }

    /// Numbers without order, always the same ones.
    fn next(state: &mut u64, below: u32) -> u32 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 33) as u32 % below.max(1)
    }

    #[test]
    fn each_chunk_is_taken_once_and_zero_ones_were_never_given_back_stale() {
        let (mut room, mut state) = (full(), 7);
        let mut model = [Some(Content::Zero); COUNT];
        let mut taken: Vec<Range<u32>> = Vec::new();
        for _ in 0..50_000 {
            match next(&mut state, 5) {
                0 | 1 => {
                    let count = 1 + next(&mut state, 20);
                    let content = [Content::Zero, Content::Stale][next(&mut state, 2) as usize];
                    if let Some(it) = room.take(count, content) {
                        assert_eq!(it.content, content);
                        for chunk in it.start..it.start + count {
                            assert_eq!(model[chunk as usize].take(), Some(content));
                        }
                        taken.push(it.start..it.start + count);
                    }
                }
                2 => {
                    let start = next(&mut state, COUNT as u32);
                    let chunks = start..start + next(&mut state, COUNT as u32 - start);
                    let places = || &model[chunks.start as usize..chunks.end as usize];
                    let is_zero = next(&mut state, 2) == 0;
                    let can = places().iter().all(|is| is.is_some_and(|is| !is_zero || is == Content::Zero));
                    assert_eq!(room.take_at(chunks.clone(), is_zero), can);
                    if can && !chunks.is_empty() {
                        model[chunks.start as usize..chunks.end as usize].fill(None);
                        taken.push(chunks);
                    }
                }
                3 if !taken.is_empty() => {
                    let it = taken.swap_remove(next(&mut state, taken.len() as u32) as usize);
                    let content = [Content::Zero, Content::Stale][next(&mut state, 2) as usize];
                    model[it.start as usize..it.end as usize].fill(Some(content));
                    room.give(it, content);
                }
                _ => {
                    if let Some(it) = room.take_stale() {
                        for chunk in it.clone() {
                            assert_eq!(model[chunk as usize], Some(Content::Stale));
                        }
                        model[it.start as usize..it.end as usize].fill(Some(Content::Zero));
                        room.give(it, Content::Zero);
                    }
                }
            }
            let stale = model.iter().filter(|is| **is == Some(Content::Stale)).count();
            assert_eq!(room.stale() as usize, stale);
        }
        for it in taken {
            room.give(it, Content::Zero);
        }
        while let Some(it) = room.take_stale() {
            room.give(it, Content::Zero);
        }
        assert_eq!(room.by_start.len(), 1, "{room:?}");
    }
}
