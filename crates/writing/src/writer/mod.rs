//! What the application's half does with its writes.

mod at_once;
mod config;
mod initiator;
mod offloads;
mod outcome;
mod path;
mod policy;
mod span;
mod staging;
mod stranded;

use std::collections::VecDeque;
use std::ops::Range;

use outboard_steering::Preference;
use outboard_wire::writing::{AttachWriter, Drained, ENTRIES_MAX, EntryHead, WriterId};
use outboard_wire::{Incarnation, Time, mutant};

pub use at_once::{BegunAtOnce, ImmediateWrite};
use config::OFFLOADED_MAX;
pub use config::WriterConfig;
pub use initiator::{BeginError, Completed, Initiator};
use offloads::{Offload, Offloads};
pub use outcome::{EndedWrite, Nonsense, NotYet, WriteFault, WriterStats};
pub use path::{Hint, WritePath};
pub use policy::{Lesson, Policy, PolicyConfig, PolicyExplanation};
use span::PageCounts;
pub use span::WriteSpan;
pub use staging::ReadyBatch;
use staging::Staging;
pub use stranded::Stranded;

/// A write, by its number in the order in which they were begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WriteId(pub u64);

/// A write that is to begin.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The region, by the slot under which it is presented.
    pub slot: u32,
    /// Where the bytes belong.
    pub offset: u64,
    /// The bytes.
    pub bytes: &'a [u8],
    /// What is known of their page.
    pub hint: Hint,
    /// Fixes the path of this write.
    pub path: Option<WritePath>,
    /// Whether its end is to be told if it is a good one. A bad one always is.
    pub signal: bool,
}

/// What to do for a write that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Write its bytes one-sidedly now, and tell [`WriteSequencer::offloaded`] or [`WriteSequencer::not_offloaded`] with this token.
    Offload {
        /// Which write.
        id: WriteId,
        /// What the link calls it.
        token: u64,
    },
    /// Nothing: its bytes are kept and travel with the next [batch](WriteSequencer::next_batch).
    Unload {
        /// Which write.
        id: WriteId,
    },
}

#[derive(Debug)]
struct Unloaded {
    id: WriteId,
    number: u64,
    span: WriteSpan,
    place: Range<usize>,
    began: Time,
    lesson: Lesson,
    signal: bool,
}

/// Begins writes by one path or the other, so that no reader at the target sees a difference but time: two writes to the
/// same bytes apply in the order in which they began, and what has ended is visible.
///
/// Between unloaded writes the ring keeps the order. A write that would be offloaded over bytes of an unsettled unloaded
/// one follows it into the ring instead; where its path is fixed, it waits. Over bytes of an offloaded one under way
/// every write waits, because one-sided writes have no order.
#[derive(Debug)]
pub struct WriteSequencer {
    config: WriterConfig,
    policy: Policy,
    identity: WriterId,
    attempt: u32,
    is_attached: bool,
    /// Whether the target takes nothing that is unloaded.
    is_stranded: bool,
    staging: Staging,
    /// Not settled, oldest first; the first has number `settled + 1`.
    unloaded: VecDeque<Unloaded>,
    unloaded_pages: PageCounts,
    settled: u64,
    /// How many of `unloaded` have been sent by this attempt.
    sent: usize,
    /// The highest number that any attempt has sent.
    sent_ever: u64,
    /// The last numbers of the batches under way.
    batches: VecDeque<u64>,
    offloads: Offloads,
    ended: VecDeque<EndedWrite>,
    next_id: u64,
    is_fenced: bool,
    counts: WriterStats,
}

impl WriteSequencer {
    /// A writer with nothing under way. It unloads nothing before it is [attached](Self::attach).
    pub fn new(identity: WriterId, config: WriterConfig, now: Time) -> Self {
        let config = WriterConfig {
            ring_bytes: config.ring_bytes.max(256),
            unloaded_max: config.unloaded_max.clamp(1, ENTRIES_MAX as usize),
            offloaded_max: config.offloaded_max.clamp(1, OFFLOADED_MAX),
            batches_max: config.batches_max.clamp(1, ENTRIES_MAX as usize),
            untold_max: config.untold_max.max(1),
            ..config
        };
        Self {
            policy: Policy::new(config.policy, config.preference, now),
            identity,
            attempt: 0,
            is_attached: false,
            is_stranded: false,
            staging: Staging::new(config.ring_bytes),
            unloaded: VecDeque::with_capacity(config.unloaded_max),
            unloaded_pages: PageCounts::new(),
            settled: 0,
            sent: 0,
            sent_ever: 0,
            batches: VecDeque::with_capacity(config.batches_max),
            offloads: Offloads::new(config.offloaded_max),
            ended: VecDeque::new(),
            next_id: 1,
            is_fenced: false,
            counts: WriterStats::default(),
            config,
        }
    }

    /// The longest write, whichever path it takes, in bytes.
    pub fn longest(&self) -> usize {
        Staging::longest(self.config.ring_bytes)
    }

    /// Whether the next write should be given the time as it is. Otherwise that of a while ago will do.
    #[inline]
    pub fn wants_clock(&self) -> bool {
        self.policy.wants_clock() && !matches!(self.config.preference, Preference::Fixed(_))
    }

    /// Begins a write, or says why it cannot now. The caller has checked its length.
    ///
    /// # Panics
    /// If it is longer than [`longest`](Self::longest).
    #[inline]
    pub fn begin(&mut self, now: Time, write: &Write<'_>) -> Result<Begun, NotYet> {
        let span = WriteSpan { slot: write.slot, offset: write.offset, len: write.bytes.len() as u64 };
        if self.ended.len() >= self.config.untold_max {
            return Err(NotYet::Untold);
        }
        if self.is_fenced {
            if !self.is_idle() && !mutant("writing.fence-skipped") {
                return Err(NotYet::Fenced);
            }
            self.is_fenced = false;
        }
        if self.offloads.overlaps(&span) {
            return Err(NotYet::Ordered);
        }
        let fixed = write.path.or(match self.config.preference {
            Preference::Fixed(path) => Some(path),
            _ => None,
        });
        let must_follow = self.overlaps_unloaded(&span);
        match fixed {
            Some(WritePath::Offload) if must_follow => Err(NotYet::Ordered),
            _ if must_follow && self.is_stranded => Err(NotYet::Ordered),
            Some(_) if self.is_stranded => self.offload(now, write, span, Lesson::NONE),
            Some(WritePath::Offload) => self.offload(now, write, span, Lesson::NONE),
            Some(WritePath::Unload) => self.unload(now, write, span, Lesson::NONE),
            None if must_follow => {
                let begun = self.unload(now, write, span, Lesson::NONE)?;
                self.counts.followed += 1;
                Ok(begun)
            }
            // As long as the target has not answered, the writer does not know whether it takes anything.
            None if !self.is_attached => self.offload(now, write, span, Lesson::NONE),
            None => {
                let (path, lesson) = self.policy.choose(&span, write.hint);
                match path {
                    WritePath::Offload => self.offload(now, write, span, lesson),
                    // A full ring says that the target's processor is behind; the other path needs none.
                    WritePath::Unload => match self.unload(now, write, span, lesson) {
                        Err(NotYet::Full) => self.offload(now, write, span, Lesson::NONE),
                        begun => begun,
                    },
                }
            }
        }
    }

    fn overlaps_unloaded(&self, span: &WriteSpan) -> bool {
        let may_meet = self.unloaded_pages.may_meet(span) && !mutant("writing.order-ignored");
        may_meet && self.unloaded.iter().any(|other| other.span.overlaps(span))
    }

    #[inline]
    fn offload(
        &mut self,
        now: Time,
        write: &Write<'_>,
        span: WriteSpan,
        lesson: Lesson,
    ) -> Result<Begun, NotYet> {
        let id = WriteId(self.next_id);
        let offload = Offload { id, span, began: now, lesson, signal: write.signal, is_doubtful: false };
        let token = self.offloads.add(offload).ok_or(NotYet::Full)?;
        self.next_id += 1;
        self.counts.offloaded += 1;
        Ok(Begun::Offload { id, token })
    }

    fn unload(
        &mut self,
        now: Time,
        write: &Write<'_>,
        span: WriteSpan,
        lesson: Lesson,
    ) -> Result<Begun, NotYet> {
        assert!(write.bytes.len() <= self.longest(), "a write that is longer than the ring takes");
        if self.unloaded.len() >= self.config.unloaded_max {
            return Err(NotYet::Full);
        }
        let head = EntryHead { slot: write.slot, len: write.bytes.len() as u32, offset: write.offset };
        let place = self.staging.push(head, write.bytes).ok_or(NotYet::Full)?;
        let id = WriteId(self.next_id);
        self.next_id += 1;
        self.counts.unloaded += 1;
        self.unloaded_pages.add(&span);
        let number = self.settled + self.unloaded.len() as u64 + 1;
        self.unloaded.push_back(Unloaded {
            id,
            number,
            span,
            place,
            began: now,
            lesson,
            signal: write.signal,
        });
        Ok(Begun::Unload { id })
    }

    /// A one-sided write has ended.
    #[inline]
    pub fn offloaded(&mut self, now: Time, token: u64, result: Result<(), WriteFault>) {
        let Some(offload) = self.offloads.take(token) else { return };
        if result.is_ok() {
            self.policy.learn(now, offload.lesson, now.since(offload.began));
        }
        // A refusal says nothing of what the target did before it forgot the writer.
        let result = if offload.is_doubtful { result.map_err(|_| WriteFault::Lost) } else { result };
        let ended = EndedWrite { id: offload.id, span: offload.span, path: WritePath::Offload, result };
        self.end(ended, offload.signal);
    }

    /// The link did not begin the one-sided write after all: as if the write had never begun.
    pub fn not_offloaded(&mut self, token: u64) {
        if let Some(offload) = self.offloads.take(token) {
            self.counts.offloaded -= 1;
            if offload.id.0 + 1 == self.next_id {
                self.next_id = offload.id.0;
            }
        }
    }

    #[inline]
    fn end(&mut self, ended: EndedWrite, signal: bool) {
        self.counts.failed += u64::from(ended.result.is_err());
        if signal || ended.result.is_err() {
            self.ended.push_back(ended);
        }
    }

    /// Begins to unload, or begins anew because the drainer is gone: everything that is not settled will be sent
    /// once more when the target has answered this.
    pub fn attach(&mut self, server: Incarnation) -> AttachWriter {
        self.attempt += 1;
        self.is_attached = false;
        self.is_stranded = false;
        if !mutant("writing.resend-left-out") {
            self.sent = 0;
        }
        self.batches.clear();
        self.attachment(server)
    }

    /// The latest attachment once more; it does no harm if the target hears it twice.
    pub fn attachment(&self, server: Incarnation) -> AttachWriter {
        AttachWriter { writer: self.identity, attempt: self.attempt, server }
    }

    /// The attachment that counts.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether the target has answered the latest attachment.
    pub fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// The target has said how far it is. What is said to an earlier attempt, or to a stranded writer, is not listened to.
    ///
    /// # Errors
    /// If it cannot be true; nothing that it says should be believed then.
    pub fn drained(&mut self, now: Time, drained: &Drained) -> Result<(), Nonsense> {
        if drained.writer != self.identity || drained.attempt > self.attempt {
            return Err(Nonsense);
        }
        // Of a stranded writer some writes have gone another way, so that numbers mean others than the target knows.
        if drained.attempt < self.attempt || self.is_stranded {
            return Ok(());
        }
        // What was sent before, at most, and never more than waits: a drainer that says more would have us settle for ever.
        let waiting = self.settled + self.unloaded.len() as u64;
        let last =
            if self.is_attached { self.settled + self.sent as u64 } else { self.sent_ever.min(waiting) };
        if drained.through < self.settled || drained.through > last {
            return Err(Nonsense);
        }
        self.is_attached = true;
        while self.settled < drained.through {
            let sequence = self.settled + 1;
            let refusal = drained.refusals.iter().find(|refusal| refusal.sequence == sequence);
            self.settle_first(
                now,
                refusal.map_or(Ok(()), |refusal| Err(WriteFault::Refused(refusal.status))),
            );
        }
        while self.batches.front().is_some_and(|last| *last <= self.settled) {
            self.batches.pop_front();
        }
        Ok(())
    }

    fn settle_first(&mut self, now: Time, result: Result<(), WriteFault>) {
        let Some(first) = self.unloaded.pop_front() else { return };
        self.staging.pop(self.unloaded.front().map(|next| next.place.start));
        self.unloaded_pages.remove(&first.span);
        self.settled += 1;
        self.sent = self.sent.saturating_sub(1);
        if result.is_ok() {
            self.policy.learn(now, first.lesson, now.since(first.began));
        }
        self.end(
            EndedWrite { id: first.id, span: first.span, path: WritePath::Unload, result },
            first.signal,
        );
    }

    /// The target is gone for good: what is under way ends with that.
    pub fn lost(&mut self, now: Time) {
        while !self.unloaded.is_empty() {
            self.settle_first(now, Err(WriteFault::Lost));
        }
        self.batches.clear();
        self.is_attached = false;
        for offload in self.offloads.take_all() {
            let ended = EndedWrite {
                id: offload.id,
                span: offload.span,
                path: WritePath::Offload,
                result: Err(WriteFault::Lost),
            };
            self.end(ended, offload.signal);
        }
    }

    /// Writes from now on begin when all before have ended.
    pub fn fence(&mut self) {
        self.is_fenced = !self.is_idle();
    }

    /// Whether nothing is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.unloaded.is_empty() && self.offloads.is_empty()
    }

    /// The number that the next write gets.
    #[inline]
    pub fn next_id(&self) -> WriteId {
        WriteId(self.next_id)
    }

    /// How many writes may have ended without the program asking for them before none begins; fewer, if the caller keeps others.
    pub fn set_untold_max(&mut self, most: usize) {
        self.config.untold_max = most;
    }

    /// How many writes are under way.
    pub fn under_way(&self) -> usize {
        self.unloaded.len() + self.offloads.len()
    }

    /// The next write that has ended.
    #[inline]
    pub fn next_ended(&mut self) -> Option<EndedWrite> {
        self.ended.pop_front()
    }

    /// What was done so far.
    pub fn counts(&self) -> WriterStats {
        self.counts
    }

    /// How it is decided, and why.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

#[cfg(test)]
mod tests;
