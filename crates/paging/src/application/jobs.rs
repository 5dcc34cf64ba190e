//! Chunks on their way, by numbers that come back with the answers.

use std::sync::Arc;

use outboard_contract::memory::Buffer;
use outboard_wire::Time;

use super::chunks::SeatId;
use super::fingerprint::PAGE;
use super::region::{PagedRegion, Way};

/// The largest chunk that is moved, in bytes.
pub const CHUNK_MAX: usize = 2 << 20;
const WORDS: usize = CHUNK_MAX / PAGE / 64;

/// A set of pages of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageSet([u64; WORDS]);

impl PageSet {
    pub(super) const EMPTY: Self = Self([0; WORDS]);

    /// The first `count` pages.
    pub(super) fn first(count: usize) -> Self {
        let mut set = Self::EMPTY;
        (0..count).for_each(|page| set.insert(page));
        set
    }

    pub(super) fn insert(&mut self, page: usize) {
        self.0[page / 64] |= 1 << (page % 64);
    }

    pub(super) fn contains(&self, page: usize) -> bool {
        page / 64 < WORDS && self.0[page / 64] >> (page % 64) & 1 == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The first run of pages at or after `from`, as a span of pages.
    pub(super) fn run(&self, from: usize) -> Option<(usize, usize)> {
        let start = (from..WORDS * 64).find(|page| self.contains(*page))?;
        let end = (start..WORDS * 64).find(|page| !self.contains(*page)).unwrap_or(WORDS * 64);
        Some((start, end))
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

/// A chunk on its way between its seat and a server.
pub(super) struct Job {
    pub(super) errand: Errand,
    pub(super) region: Arc<PagedRegion>,
    pub(super) index: u32,
    pub(super) shard: usize,
    pub(super) seat: SeatId,
    /// All frames of its size, and where its own begins.
    pub(super) buffer: Buffer,
    pub(super) at: usize,
    /// When it was sent off, if nothing else was under way then: how long it takes tells how fast the way is.
    pub(super) sent_at: Time,
    /// By which way it was last sent off.
    pub(super) way: Way,
    /// Not by the agent, which has failed it.
    pub(super) shuns_agent: bool,
    /// How much of it one message carries; zero until the first is sent.
    pub(super) piece_bytes: usize,
    /// How far its bytes have been asked for or sent, and how many those are.
    pub(super) next: usize,
    pub(super) sent: usize,
    /// Operations under way.
    pub(super) under_way: u32,
    /// Whether one of them failed.
    pub(super) has_failed: bool,
    /// Whether what failed may have been done all the same, or may still be.
    pub(super) is_uncertain: bool,
}

impl Job {
    /// The next piece of at most `max` bytes: where it begins in the chunk, and how long it is.
    pub(super) fn piece(&self, max: usize) -> Option<(usize, usize)> {
        let (_, len) = self.region.offset(self.index);
        match &self.errand {
            Errand::Demand | Errand::Ahead { .. } => {
                (self.next < len).then(|| (self.next, (len - self.next).min(max)))
            }
            Errand::Save(pages) => changed_piece(pages, self.next, len, max),
        }
    }

    /// A piece is on its way.
    pub(super) fn piece_sent(&mut self, start: usize, len: usize) {
        self.next = start + len;
        self.sent += len;
        self.under_way += 1;
    }

    /// Begins anew, all operations having ended.
    pub(super) fn restart(&mut self) {
        debug_assert_eq!(self.under_way, 0, "operations are still under way");
        (self.next, self.sent, self.piece_bytes) = (0, 0, 0);
        (self.has_failed, self.is_uncertain) = (false, false);
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

/// The next piece of the changed pages of `len` bytes, at `next` or after it. One that links cut within a page goes on
/// there.
fn changed_piece(pages: &PageSet, next: usize, len: usize, max: usize) -> Option<(usize, usize)> {
    let (start, end) = pages.run(next / PAGE)?;
    let (start, end) = ((start * PAGE).max(next), (end * PAGE).min(len));
    (start < end).then(|| (start, (end - start).min(max)))
}

/// How many pieces a chunk is moved in, at most.
const PIECE_BITS: u32 = 10;

/// Jobs under way.
#[derive(Default)]
pub(super) struct Flight {
    jobs: Vec<Option<Job>>,
    free: Vec<u32>,
}

/// What an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) slot: u32,
    pub(super) piece: u32,
}

impl Tag {
    pub(super) fn encode(self) -> u32 {
        self.slot << PIECE_BITS | self.piece
    }

    pub(super) fn decode(bits: u32) -> Self {
        Self { slot: bits >> PIECE_BITS, piece: bits & ((1 << PIECE_BITS) - 1) }
    }
}

impl Flight {
    /// Room for this many jobs, so that none is allocated for later.
    pub(super) fn with_capacity(jobs: usize) -> Self {
        Self { jobs: Vec::with_capacity(jobs), free: Vec::with_capacity(jobs) }
    }

    pub(super) fn insert(&mut self, job: Job) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.jobs[slot as usize] = Some(job);
                slot
            }
            None => {
                self.jobs.push(Some(job));
                (self.jobs.len() - 1) as u32
            }
        }
    }

    pub(super) fn get(&mut self, slot: u32) -> Option<&mut Job> {
        self.jobs.get_mut(slot as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, slot: u32) -> Option<Job> {
        let job = self.jobs.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(job)
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len() - self.free.len()
    }

    /// The numbers of all jobs.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.jobs.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_in_order() {
        let mut set = PageSet::EMPTY;
        assert_eq!(set.run(0), None);
        for page in [0, 1, 5, 63, 64, 65, 511] {
            set.insert(page);
        }
        let mut runs = Vec::new();
        let mut from = 0;
        while let Some((start, end)) = set.run(from) {
            runs.push((start, end));
            from = end;
        }
        assert_eq!(runs, [(0, 2), (5, 6), (63, 66), (511, 512)]);
        assert_eq!(PageSet::first(512).run(0), Some((0, 512)));
    }

    #[test]
    fn pieces_are_all_bytes_of_changed_pages_and_no_others() {
        let mut changed = PageSet::EMPTY;
        for page in [0, 1, 2, 5, 9, 10] {
            changed.insert(page);
        }
        // A region may end within a page, and links carry as much at once as they like.
        for len in [11 * PAGE, 10 * PAGE + 24, 10 * PAGE] {
            for max in [1, 1000, PAGE - 8, PAGE, PAGE + 8, 3 * PAGE - 96, 64 * PAGE] {
                let mut sent = vec![0_u8; 11 * PAGE];
                let mut next = 0;
                while let Some((start, bytes)) = changed_piece(&changed, next, len, max) {
                    assert!(bytes <= max && start >= next);
                    sent[start..start + bytes].iter_mut().for_each(|times| *times += 1);
                    next = start + bytes;
                }
                let is_changed = |at: usize| changed.run(at / PAGE).is_some_and(|run| run.0 == at / PAGE);
                let wrong = (0..11 * PAGE).find(|at| sent[*at] != u8::from(*at < len && is_changed(*at)));
                assert_eq!(wrong, None, "{len} bytes by {max}");
            }
        }
    }
}
