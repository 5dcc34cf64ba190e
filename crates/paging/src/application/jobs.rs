//! Chunks on their way, by numbers that come back with the answers.

use std::sync::Arc;

use outboard_contract::memory::Buffer;
use outboard_wire::{Time, mutant};

use super::chunks::{ChunkKey, SeatId};
use super::fingerprint::PAGE;
use super::region::{FetchPath, PagedRegion};

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
    pub(super) key: ChunkKey,
    pub(super) shard: usize,
    pub(super) seat: SeatId,
    /// All frames of its size, and where its own begins.
    pub(super) buffer: Buffer,
    pub(super) at: usize,
    /// When it was sent off, if nothing else was under way then: how long it takes tells how fast the way is.
    pub(super) sent_at: Time,
    /// By which way it was last sent off.
    pub(super) way: FetchPath,
    /// Whether it goes as a message, so that the server touches its pages first, also where they are mapped here.
    pub(super) founds: bool,
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
        let (_, len) = self.region.offset(self.key);
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

    /// A piece of it came to nothing, or its end is not known.
    pub(super) fn fail(&mut self, is_uncertain: bool) {
        self.has_failed = true;
        self.is_uncertain |= is_uncertain;
    }

    /// Saves the whole chunk, or page of a divided one, as the first who touches it at the server.
    pub(super) fn found(&mut self) {
        let (_, len) = self.region.offset(self.key);
        (self.errand, self.founds) = (Errand::Save(PageSet::first(len.div_ceil(PAGE))), true);
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
const PIECES: usize = 1 << PIECE_BITS;
/// How many jobs are under way, at most.
const SLOT_BITS: u32 = 10;
/// After so many jobs in one slot an answer to the first would be taken for one to the last.
const TURN_BITS: u32 = 10;

/// The messages of the job in a slot. Each has one answer: what comes a second time, or was never asked for, answers nothing.
#[derive(Clone, Copy, Debug)]
struct Messages {
    /// Which of the jobs that had this slot it is.
    turn: u32,
    sent: u32,
    awaited: [u64; PIECES / 64],
}

impl Messages {
    /// Those of a job that begins.
    fn new(turn: u32) -> Self {
        Self { turn: turn & ((1 << TURN_BITS) - 1), sent: 0, awaited: [0; PIECES / 64] }
    }

    fn sent(&mut self) {
        if let Some(word) = self.awaited.get_mut(self.sent as usize / 64) {
            *word |= 1 << (self.sent % 64);
        }
        self.sent += 1;
    }

    /// One was answered. Returns false if no answer to it was awaited.
    fn answered(&mut self, number: u32) -> bool {
        let Some(word) = self.awaited.get_mut(number as usize / 64) else { return false };
        let bit = 1 << (number % 64);
        let is_awaited = *word & bit != 0;
        *word &= !bit;
        is_awaited || mutant("paging.answer-taken-twice")
    }
}

/// Jobs under way.
#[derive(Default)]
pub(super) struct JobsUnderWay {
    jobs: Vec<Option<Job>>,
    /// For every slot.
    messages: Vec<Messages>,
    free: Vec<u32>,
}

/// The request that an answer belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) slot: u32,
    /// Which of the jobs that had this slot.
    turn: u32,
    /// Which message of the job.
    pub(super) piece: u32,
}

impl Tag {
    pub(super) fn encode(self) -> u32 {
        (self.turn << SLOT_BITS | self.slot) << PIECE_BITS | self.piece
    }

    pub(super) fn decode(bits: u32) -> Self {
        let part = |from: u32, bits_of_it: u32| bits >> from & ((1 << bits_of_it) - 1);
        Self {
            slot: part(PIECE_BITS, SLOT_BITS),
            turn: part(PIECE_BITS + SLOT_BITS, TURN_BITS),
            piece: part(0, PIECE_BITS),
        }
    }
}

impl JobsUnderWay {
    /// Room for this many jobs, so that none is allocated for later.
    pub(super) fn with_capacity(jobs: usize) -> Self {
        Self {
            jobs: Vec::with_capacity(jobs),
            messages: Vec::with_capacity(jobs),
            free: Vec::with_capacity(jobs),
        }
    }

    pub(super) fn insert(&mut self, job: Job) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.jobs[slot as usize] = Some(job);
                let messages = &mut self.messages[slot as usize];
                *messages = Messages::new(messages.turn + 1);
                slot
            }
            None => {
                self.jobs.push(Some(job));
                self.messages.push(Messages::new(0));
                (self.jobs.len() - 1) as u32
            }
        }
    }

    /// The tag of the next message of a job.
    pub(super) fn next_tag(&self, slot: u32) -> Option<Tag> {
        let messages = self.messages.get(slot as usize)?;
        Some(Tag { slot, turn: messages.turn, piece: messages.sent })
    }

    /// The next message of a job was sent.
    pub(super) fn message_sent(&mut self, slot: u32) {
        if let Some(messages) = self.messages.get_mut(slot as usize) {
            messages.sent();
        }
    }

    /// An answer has come. Returns whether a job awaits it that went where the answer comes from.
    pub(super) fn answered(&mut self, tag: Tag, is_from_there: impl FnOnce(&Job) -> bool) -> bool {
        let Some(Some(job)) = self.jobs.get(tag.slot as usize) else { return false };
        let messages = &mut self.messages[tag.slot as usize];
        messages.turn == tag.turn && is_from_there(job) && messages.answered(tag.piece)
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
    fn tags_come_back_as_they_went_and_leave_the_bits_of_others_alone() {
        for slot in [0, 1, 255, (1 << SLOT_BITS) - 1] {
            for turn in [0, 1, (1 << TURN_BITS) - 1] {
                for piece in [0, 1, PIECES as u32 - 1] {
                    let tag = Tag { slot, turn, piece };
                    assert_eq!(Tag::decode(tag.encode()), tag);
                    assert!(tag.encode() < 1 << 30);
                }
            }
        }
    }

    #[test]
    fn a_message_is_answered_once() {
        let mut messages = Messages::new(0);
        assert!(!messages.answered(0), "nothing was sent");
        (0..PIECES).for_each(|_| messages.sent());
        for number in [0, 63, 64, PIECES as u32 - 1] {
            assert!(messages.answered(number) && !messages.answered(number));
        }
        assert!(!messages.answered(PIECES as u32));
    }

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
