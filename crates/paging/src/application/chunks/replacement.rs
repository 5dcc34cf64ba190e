//! Which chunks are kept, and which leave.
//!
//! Chunks come *on trial*, and leave in the order in which they came, unless there was room when they came. So a stream pushes
//! out its own chunks, not those that are *kept*. A chunk that comes back soon after it has left takes the place of one that is
//! kept if that is used less often. Userfaultfd shows no use of what is in the region, so of those that are kept the
//! oldest are moved out as *samples* now and then: one that is touched meanwhile is moved in again and stays. One that was not
//! touched for longer than the returning chunk was away gives its place to that.
//!
//! Time is counted in chunks that came. Streams that go round and round keep as much as there is room for, where the least
//! recently used would always be the one that is needed next.

use outboard_wire::mutant;

use super::chunk::{SeatId, SizeClass};
use super::lists::Queue;
use super::shard::Shard;

/// One chunk in so many of those that are here is on trial, at least.
const ON_TRIAL: usize = 32;
/// Nine in ten of all chunks may be on trial, where those that are kept turn out not to be used.
const ON_TRIAL_MAX: (usize, usize) = (9, 10);
/// One chunk in so many is a sample, at least and at most.
const SAMPLES: (usize, usize) = (64, 8);
/// One part in so many of all chunks has come since a sample was last seen to be touched.
const AGE: usize = 8;
/// By how many chunks the trial grows when a kept one was found to be of less use than another, shrinks when a sample is
/// touched, and shrinks when a sample was not found to be of less use.
const TRIAL_STEPS: (usize, usize, usize) = (1, 4, 1);

/// The lessons about the chunks that are kept.
#[derive(Debug, Default)]
pub(super) struct Replacement {
    /// How many chunks came.
    pub(super) clock: u64,
    /// How many chunks more than usual are on trial, and how many more are samples.
    more_on_trial: usize,
    more_samples: usize,
    /// Whether a chunk has come for which another left, since a sample was taken last.
    may_sample: bool,
    /// Whether the last chunk that was to leave could not.
    pub(super) is_held: bool,
}

impl Shard {
    /// How many chunks are here.
    fn here(&self) -> usize {
        self.chunks.len()
    }

    /// A chunk comes that was last seen at this time, if it is remembered. Returns whether it is kept.
    pub(super) fn judge(&mut self, last_seen: Option<u64>) -> bool {
        self.replacement.clock += 1;
        if std::mem::take(&mut self.has_grown) {
            return true;
        }
        self.replacement.may_sample = true;
        last_seen.is_some_and(|last_seen| self.takes_a_place(last_seen))
    }

    /// Whether a chunk that was last seen at this time is used more often than the one among those that are kept that is used
    /// least, as far as that is known. That one leaves.
    fn takes_a_place(&mut self, last_seen: u64) -> bool {
        let (learnt, here) = (&mut self.replacement, self.chunks.len());
        let (grow, _, shrink) = TRIAL_STEPS;
        let Some(sample) = self.samples.oldest() else { return false };
        let away = learnt.clock - last_seen;
        if learnt.clock - self.seats[sample as usize].since <= away && !mutant("paging.kept-for-nothing") {
            learnt.more_on_trial = learnt.more_on_trial.saturating_sub(shrink);
            return false;
        }
        learnt.more_on_trial = (learnt.more_on_trial + grow).min(here * ON_TRIAL_MAX.0 / ON_TRIAL_MAX.1);
        learnt.more_samples = (learnt.more_samples + 1).min(here / SAMPLES.1);
        self.leave_aside(sample);
        self.seat_mut(sample).is_sample = false;
        self.enter_aside(sample);
        true
    }

    /// A chunk is touched that had been moved out. Decides whether it is kept.
    pub(super) fn judge_rescued(&mut self, index: u32) {
        let seat = *self.seat(index);
        self.seat_mut(index).since = self.replacement.clock;
        if !seat.is_sample {
            let is_kept = seat.is_kept || self.takes_a_place(seat.since);
            self.seat_mut(index).is_kept = is_kept;
            return;
        }
        if seat.is_kept {
            let learnt = &mut self.replacement;
            learnt.more_on_trial = learnt.more_on_trial.saturating_sub(TRIAL_STEPS.1);
            learnt.more_samples = learnt.more_samples.saturating_sub(1);
        }
        self.seat_mut(index).is_sample = false;
    }

    /// How many bytes of chunks may be on trial: those that are read ahead must not leave before they are touched.
    fn trial_bytes(&self) -> usize {
        let grain = self.need.grain();
        (self.used / ON_TRIAL + self.replacement.more_on_trial * grain).max(2 * self.need.usual()).max(grain)
    }

    /// The chunk to be moved out next: the oldest on trial if there are more than there should be, else the oldest that is
    /// kept. None if all are pinned or on their way. Say [`left`](Shard::left) or [`stuck`](Shard::stuck).
    pub fn oldest(&mut self) -> Option<SeatId> {
        let is_trial_long = self.trial_used > self.trial_bytes() && !mutant("paging.streams-push-out");
        let first = self.oldest_of(!is_trial_long);
        first.or_else(|| self.oldest_of(is_trial_long))
    }

    fn oldest_of(&mut self, is_kept: bool) -> Option<SeatId> {
        for _ in 0..self.residents_of(is_kept).len() {
            let oldest = self.residents_of(is_kept).oldest()?;
            if !self.seat(oldest).is_pinned && self.may_leave(oldest) {
                return Some(SeatId(oldest));
            }
            self.leave_region(oldest);
            self.enter_region_newest(oldest);
        }
        None
    }

    /// Whether it is time to find out if the oldest chunk that is kept is still used.
    pub(in super::super) fn wants_sample(&self) -> bool {
        let learnt = &self.replacement;
        let wanted = self.here() / SAMPLES.0 + 1 + learnt.more_samples;
        // One that has just been touched tells nothing.
        let age = |oldest: u32| learnt.clock - self.seat(oldest).since;
        let is_old = self.kept.oldest().is_some_and(|oldest| age(oldest) > (self.here() / AGE) as u64);
        learnt.may_sample && is_old && self.samples.len() < wanted
    }

    /// Whether a seat can be had by moving out a chunk that is next to leave, and at once only by taking that of a sample, which would
    /// tell nothing then. Where chunks have to be saved first, or are held, samples are taken.
    pub(super) fn spares_a_sample(&mut self, class: SizeClass) -> bool {
        self.samples.len() > 0
            && self.aside.len() == 0
            && self.free.is_empty()
            && !self.can_grow(class)
            && self.unsaved_bytes == 0
            && !self.replacement.is_held
            && self.may_make_room(class)
            && self.oldest().is_some()
    }

    /// The chunk to be moved out next while no thread waits, if room is wanted or a sample. As [`oldest`](Shard::oldest).
    pub fn next_to_leave(&mut self) -> Option<SeatId> {
        if self.wants_seats() {
            return self.oldest();
        }
        self.next_sample()
    }

    /// The chunk to be moved out next to see whether it is used, if it is time for that. As [`oldest`](Shard::oldest).
    pub fn next_sample(&mut self) -> Option<SeatId> {
        if !self.wants_sample() {
            return None;
        }
        self.replacement.may_sample = false;
        let sample = self.oldest_of(true)?;
        self.seat_mut(sample.0).is_sample = true;
        Some(sample)
    }

    /// Whether chunks should be moved out now: because others want the room, because seats were asked for and as many as are
    /// usually asked for at once cannot be had without moving anything, or to see whether they are used. Where no seat is
    /// asked for, nothing is moved.
    pub fn wants_room(&mut self) -> bool {
        self.wants_seats() || self.wants_sample()
    }

    /// The chunks in the region that are kept, or those on trial.
    pub(super) fn residents_of(&mut self, is_kept: bool) -> &mut Queue {
        if is_kept { &mut self.kept } else { &mut self.on_trial }
    }

    /// A chunk is in the region, and counts as new.
    pub(super) fn enter_region_newest(&mut self, index: u32) {
        let (is_kept, bytes) = (self.seat(index).is_kept, self.seat(index).frame.class.bytes());
        self.trial_used += if is_kept { 0 } else { bytes };
        let queue = if is_kept { &mut self.kept } else { &mut self.on_trial };
        queue.push_newest(&mut self.links, index);
    }

    pub(super) fn leave_region(&mut self, index: u32) {
        self.replacement.is_held = false;
        let (is_kept, bytes) = (self.seat(index).is_kept, self.seat(index).frame.class.bytes());
        self.trial_used -= if is_kept { 0 } else { bytes };
        let queue = if is_kept { &mut self.kept } else { &mut self.on_trial };
        queue.remove(&mut self.links, index);
    }

    /// A chunk stands aside: its seat can be taken, that of a sample only if there is no other.
    pub(super) fn enter_aside(&mut self, index: u32) {
        let seat = self.seat(index);
        let (is_sample, bytes) = (seat.is_sample, seat.frame.class.bytes());
        self.aside_bytes += if is_sample { 0 } else { bytes };
        let queue = if is_sample { &mut self.samples } else { &mut self.aside };
        queue.push_newest(&mut self.links, index);
    }

    pub(super) fn leave_aside(&mut self, index: u32) {
        let seat = self.seat(index);
        let (is_sample, bytes) = (seat.is_sample, seat.frame.class.bytes());
        self.aside_bytes -= if is_sample { 0 } else { bytes };
        let queue = if is_sample { &mut self.samples } else { &mut self.aside };
        queue.remove(&mut self.links, index);
    }
}
