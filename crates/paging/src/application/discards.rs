//! Chunks that are made zero, here and at the server, whose memory is given back.
//!
//! Write-backs of these chunks wait meanwhile, and those that were under way have ended before: one that arrived later would
//! bring the old bytes back, or its newer bytes would be discarded. What is discarded passes the agent by, like a write-back that
//! does.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use outboard_wire::{Time, mutant};

use super::chunks::State;
use super::pages::Pages;
use super::region::PagedRegion;
use super::space::{PageSpace, Span};

/// The rest of chunks that the server has discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remaining {
    /// Nothing: they are zero.
    Nothing,
    /// Some are on their way, and may bring older bytes.
    UnderWay,
    /// This one is to stay in its region. The thread that discards it fills it with zeros.
    Kept(u32),
}

impl<S: PageSpace> Pages<S> {
    /// Chunks of a region are to be discarded: none of them is saved until [`end_discard`](Self::end_discard).
    pub fn begin_discard(&self, region: &PagedRegion, chunks: &Range<u32>) {
        let _uninterrupted = self.space.uninterrupted();
        region.discards().push(chunks.clone());
        region.discarding.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether nothing of these chunks is on its way to the server, nor can be, so that the server may discard them.
    pub fn can_discard(&self, region: &PagedRegion, chunks: &Range<u32>) -> bool {
        let _uninterrupted = self.space.uninterrupted();
        let is_sent = |state| matches!(state, State::Saving | State::Returned);
        let mut sent = self.shelves.iter().map(|shelf| {
            let cell = shelf.lock();
            cell.shard().in_range(region.number, chunks, 0).any(|(_, _, state)| is_sent(state))
        });
        // One that failed waits for a fence, which is asked for before it counts as failed.
        !sent.any(|is_sent| is_sent) && region.fencing.load(Ordering::Acquire) == 0
    }

    /// Whether the server has nothing but zeros of these chunks, so that it need not be asked to discard them. No write-back may
    /// be able to begin, nor be under way.
    pub fn are_blank(&self, region: &PagedRegion, chunks: &Range<u32>) -> bool {
        chunks.clone().all(|index| region.blanks.has(index))
    }

    /// The server is asked to discard chunks, in this epoch.
    pub fn ask_to_discard(&self, region: &PagedRegion) -> u64 {
        if is_told_to_agents() {
            region.bypass.begin();
        }
        region.bypass.epoch()
    }

    /// The server was asked to discard chunks, and has answered or is gone. `now` is the epoch that it named, if the one in which it
    /// was asked had passed: a fence of ours may have begun it whose answer a lost link did not bring.
    pub fn was_asked_to_discard(&self, region: &PagedRegion, now: Option<u64>) {
        let _uninterrupted = self.space.uninterrupted();
        if let Some(epoch) = now {
            region.bypass.begin_epoch(epoch);
        }
        if is_told_to_agents() {
            region.bypass.end(self.space.time(Time::ZERO));
        }
    }

    /// The server has discarded chunks: they are zero here too from now on, but for those that are on their way, and those that
    /// have to stay in their region. `cleared` are those of them that have been filled with zeros.
    pub fn discarded(&self, region: &Arc<PagedRegion>, chunks: &Range<u32>, cleared: &[u32]) -> Remaining {
        let _uninterrupted = self.space.uninterrupted();
        chunks.clone().for_each(|index| region.blanks.insert(index));
        let mut remaining = Remaining::Nothing;
        for shelf in &self.shelves {
            let mut from = 0;
            loop {
                let mut cell = shelf.lock();
                let Some((seat, key, state)) = cell.shard().in_range(region.number, chunks, from).next()
                else {
                    break;
                };
                from = seat.next();
                let place = region.place(key, &cell).filter(|_| state == State::Resident);
                if cell.shard.may_be_discarded(seat) {
                    if let Some(place) = place {
                        self.space.discard(place);
                    }
                    cell.shard.discard(seat);
                } else if state == State::Fetching {
                    remaining = Remaining::UnderWay;
                } else if !cleared.contains(&key.index) {
                    return Remaining::Kept(key.index);
                }
            }
        }
        remaining
    }

    /// These chunks, whose discard was begun, are saved again.
    pub fn end_discard(&self, region: &PagedRegion, chunks: &Range<u32>) {
        let _uninterrupted = self.space.uninterrupted();
        let mut discards = region.discards();
        if let Some(at) = discards.iter().position(|begun| begun == chunks) {
            discards.swap_remove(at);
            region.discarding.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The bytes that agents have of a region are old once a part of it was discarded.
fn is_told_to_agents() -> bool {
    !mutant("paging.discarded-behind-the-agent")
}

impl PagedRegion {
    fn discards(&self) -> MutexGuard<'_, Vec<Range<u32>>> {
        self.discards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread discards a chunk.
    pub(super) fn is_being_discarded(&self, index: u32) -> bool {
        self.discarding.load(Ordering::Acquire) > 0
            && self.discards().iter().any(|chunks| chunks.contains(&index))
    }

    /// Whether a chunk may hold anything but zeros: it was touched or written, and not discarded since.
    pub fn is_touched(&self, index: u32) -> bool {
        self.blanks.is_touched(index)
    }

    /// How many chunks were touched, of those that this process has made, and not discarded since.
    pub fn chunks_touched(&self) -> u64 {
        self.blanks.touches()
    }

    /// The bytes of these chunks, as its server numbers them.
    pub fn bytes_of(&self, chunks: &Range<u32>) -> Range<u64> {
        let at = |index: u32| (u64::from(index) * self.chunk_bytes() as u64).min(self.size());
        at(chunks.start)..at(chunks.end)
    }

    /// The addresses of a chunk, without what is behind the end of the region.
    pub fn whole_addresses_of(&self, index: u32) -> Span {
        Span { len: self.offset(self.key(index)).1, ..self.addresses_of(index) }
    }
}
