//! Chunks on their way between their seats and the server.

use std::collections::BTreeMap;

use outboard_paging::pager::{ChunkKey, SeatId};

use super::layout::PAGE;

/// A set of pages of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageSet(u32);

impl PageSet {
    pub(super) const EMPTY: Self = Self(0);

    /// The first `count` pages.
    pub(super) fn first(count: usize) -> Self {
        Self((1 << count) - 1)
    }

    pub(super) fn insert(&mut self, page: usize) {
        self.0 |= 1 << page;
    }

    pub(super) fn contains(self, page: usize) -> bool {
        self.0 >> page & 1 == 1
    }

    /// The first run of pages at or after `from`, as a span of pages.
    fn run(self, from: usize) -> Option<(usize, usize)> {
        let start = (from..32).find(|page| self.contains(*page))?;
        Some((start, (start..32).find(|page| !self.contains(*page)).unwrap_or(32)))
    }
}

/// Why a chunk moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// A thread waits for it.
    Demand,
    /// It will be wanted. The marker of a scan stays in its seat.
    Ahead { stay: bool },
    /// These pages are newer than the server's.
    Save(PageSet),
}

/// A chunk on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) errand: Errand,
    pub(super) key: ChunkKey,
    pub(super) shard: usize,
    pub(super) seat: SeatId,
    /// Which fault thread has it.
    pub(super) lane: usize,
    /// How far its bytes have been asked for or sent.
    pub(super) next: usize,
    /// Operations under way.
    pub(super) under_way: u32,
    pub(super) has_failed: bool,
    /// Whether what failed may have been done all the same, or may still be.
    pub(super) is_uncertain: bool,
}

impl Job {
    pub(super) fn new(errand: Errand, key: ChunkKey, shard: usize, seat: SeatId) -> Self {
        let (next, under_way) = (0, 0);
        Self { errand, key, shard, seat, lane: 0, next, under_way, has_failed: false, is_uncertain: false }
    }

    /// The next piece of at most `max` bytes of a chunk of `len`: where it begins, and how long it is.
    pub(super) fn piece(&self, len: usize, max: usize) -> Option<(usize, usize)> {
        let (start, end) = match self.errand {
            Errand::Demand | Errand::Ahead { .. } => (self.next, len),
            Errand::Save(pages) => {
                let (start, end) = pages.run(self.next / PAGE)?;
                ((start * PAGE).max(self.next), (end * PAGE).min(len))
            }
        };
        (start < end).then(|| (start, (end - start).min(max)))
    }

    pub(super) fn piece_sent(&mut self, start: usize, len: usize) {
        self.next = start + len;
        self.under_way += 1;
    }

    /// A piece of it came to nothing, or nobody knows what it came to.
    pub(super) fn fail(&mut self, is_uncertain: bool) {
        self.has_failed = true;
        self.is_uncertain |= is_uncertain;
    }

    pub(super) fn is_save(&self) -> bool {
        matches!(self.errand, Errand::Save(_))
    }
}

/// Jobs whose operations are under way, by numbers that come back with the answers.
#[derive(Default)]
pub(super) struct Flight {
    pub(super) jobs: BTreeMap<u32, Job>,
    next: u32,
}

impl Flight {
    pub(super) fn insert(&mut self, job: Job) -> u32 {
        self.next += 1;
        self.jobs.insert(self.next, job);
        self.next
    }

    /// The saves under way.
    pub(super) fn saves(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().filter(|job| job.is_save())
    }

    /// The numbers of a thread's jobs.
    pub(super) fn of_lane(&self, lane: usize) -> Vec<u32> {
        self.jobs.iter().filter(|(_, job)| job.lane == lane).map(|(number, _)| *number).collect()
    }
}
