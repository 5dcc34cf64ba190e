//! Chunks that the application says it will touch next.
//!
//! A list goes to all fault threads as one note each. They take chunks of it by turns, some neighbours at a time, so that what is
//! first in the list comes first. No list waits for room: a chunk for which there is no seat is left to the fault that wants it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::pages::Pages;
use super::region::PagedRegion;

/// How many neighbours one thread takes at a time.
const TOGETHER: usize = 4;
/// Chunks that are asked for in advance take one part in so many of the buffer, beside what of it is free: chunks for which others leave
/// must not leave themselves before they are touched.
const PART: usize = 8;

/// A list of chunks that will be wanted, as one of several threads takes its share of it.
pub struct PrefetchShare {
    list: Arc<[(Arc<PagedRegion>, Range<u32>)]>,
    turn: usize,
    turns: usize,
    /// The entry of the list that is next, which of its chunks, and how many chunks of the list come before that.
    entry: usize,
    chunk: u32,
    passed: usize,
}

impl Iterator for PrefetchShare {
    type Item = (Arc<PagedRegion>, u32);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (region, chunks) = self.list.get(self.entry)?;
            let chunk = chunks.start + self.chunk;
            if chunk >= chunks.end {
                (self.entry, self.chunk) = (self.entry + 1, 0);
                continue;
            }
            let is_ours = self.passed / TOGETHER % self.turns == self.turn;
            (self.chunk, self.passed) = (self.chunk + 1, self.passed + 1);
            if is_ours {
                return Some((Arc::clone(region), chunk));
            }
        }
    }
}

impl<S> Pages<S> {
    /// Shares a list of chunks out among `turns` threads.
    pub fn prefetch(
        &self,
        list: Vec<(Arc<PagedRegion>, Range<u32>)>,
        turns: usize,
    ) -> impl Iterator<Item = PrefetchShare> {
        let bytes = list.iter().map(|(region, chunks)| chunks.len() * region.chunk_bytes()).sum();
        self.awaited_ahead.fetch_add(bytes, Ordering::AcqRel);
        let list: Arc<[_]> = list.into();
        let share =
            move |turn| PrefetchShare { list: Arc::clone(&list), turn, turns, entry: 0, chunk: 0, passed: 0 };
        (0..turns).map(share)
    }

    /// How many more bytes are worth asking for in advance.
    pub fn room_ahead(&self) -> usize {
        let room = self.pool.free() + self.pool.budget() / PART;
        room.saturating_sub(self.awaited_ahead.load(Ordering::Acquire))
    }

    /// A thread has looked at a chunk of a list.
    pub(super) fn looked_ahead(&self, region: &PagedRegion) {
        self.awaited_ahead.fetch_sub(region.chunk_bytes(), Ordering::AcqRel);
    }
}
