//! One end of a link over a stream: frames.

use std::sync::Arc;

use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, Introduction, Text, Time};
use rustix::io::Errno;

use super::bytes::{Arrival, ByteStream};
use super::config::StreamConfig;
use super::desk::Desk;
use super::exit::Exit;
use super::inbox::Inbox;
use super::pulse::Pulse;
use super::straight::{Straight, is_long_frame};
use crate::memory::{Window, WindowMut};
use crate::patience::LEGACY_KEPT;
use crate::{
    AtomicDomain, Backlog, Capabilities, Counters, Disposition, Exports, Frame, FrameSendError, Link,
    LinkError, Loss, Peer, WaitOn,
};

/// A link over a stream of bytes.
///
/// Bytes move in [`Link::progress`] and [`Link::flush`] only, and long answers to the peer's reads at once;
/// one-sided operations start to travel at whichever comes first. A reservation lasts until the next call that is not [`Link::commit`].
pub struct StreamLink<S: ByteStream> {
    /// Apart from the inbox, so that records are answered where they lie. Before the stream, which must outlive what
    /// was lent through it.
    pub(super) desk: Desk,
    pub(super) stream: S,
    inbox: Inbox,
    straight: Straight,
    pub(super) pulse: Pulse,
    peer: Peer,
    capabilities: Capabilities,
    /// Nothing more can leave.
    unsendable: Option<Loss>,
    /// Nothing more can arrive either, since then; told once everything that has arrived is handed out, or was deferred
    /// for too long.
    ended: Option<(Loss, Time)>,
    /// The peer has been told that this side is finished.
    finished: bool,
    /// Nothing was left in the stream a moment ago: the next look can be left out. Only one, because a side that never
    /// sleeps finds out what arrives by looking.
    is_drained: bool,
    /// Whether the next frame was deferred when it was last offered.
    is_deferred: bool,
    pub(super) lost: Option<LinkError>,
}

/// The queues of a link, which take memory: made before anything is promised to the peer.
pub(super) struct Queues {
    desk: Desk,
    inbox: Inbox,
    max_payload: usize,
}

impl Queues {
    /// For a link to a peer with this introduction.
    pub(super) fn new<S: ByteStream>(
        intro: &Introduction,
        exports: Arc<Exports>,
        terms: &StreamConfig,
    ) -> Result<Self, Errno> {
        let ours = terms.max_payload();
        // No frame is longer than the peer can take, nor need the peer send shorter ones than we can take.
        let max_payload = ours.min(intro.max_payload as usize);
        let desk = Desk::new(terms, exports, (max_payload, S::REACHES))?;
        Ok(Self { desk, inbox: Inbox::new(terms.buffer_bytes, ours)?, max_payload })
    }
}

/// The kind of the first record.
enum First {
    /// Nothing that is there as a whole.
    Nothing,
    /// A frame for a room.
    Frame,
}

impl<S: ByteStream> StreamLink<S> {
    pub(super) fn new(stream: S, queues: Queues, peer: Peer, terms: &StreamConfig) -> Self {
        let Queues { mut desk, inbox, max_payload } = queues;
        desk.server.speak(peer.version());
        let capabilities = Capabilities {
            name: stream.name(),
            max_payload,
            one_sided: stream.one_sided(),
            max_access: max_payload,
            max_operations: terms.operations_max,
            atomics: AtomicDomain::Cpu,
            needs_target_progress: true,
        };
        let pulse = Pulse::new(terms.heartbeat, terms.deadline);
        Self {
            desk,
            stream,
            inbox,
            straight: Straight::default(),
            pulse,
            peer,
            capabilities,
            unsendable: None,
            ended: None,
            finished: false,
            is_drained: false,
            is_deferred: false,
            lost: None,
        }
    }

    #[inline]
    pub(super) fn check(&self) -> Result<(), LinkError> {
        match &self.lost {
            None => Ok(()),
            Some(lost) => Err(lost.clone()),
        }
    }

    /// The link is over: tells the peer why if this side decided so, and ends what was under way.
    #[cold]
    fn lose(&mut self, loss: Loss) -> LinkError {
        if let Some(lost) = &self.lost {
            return lost.clone();
        }
        if matches!(loss, Loss::Broke(_) | Loss::Stalled { .. }) {
            self.say_goodbye(1, &loss.to_string());
        }
        let lost = LinkError { peer: self.peer.clone(), loss };
        self.desk.requester.abandon(&lost);
        self.lost = Some(lost.clone());
        lost
    }

    fn say_goodbye(&mut self, code: u16, reason: &str) {
        self.desk.outbox.liveness(&Liveness::Goodbye { code, reason: Text::new(reason) });
        self.push();
        self.finish_if_sent();
    }

    /// Once everything is sent after the end, the stream can be told.
    fn finish_if_sent(&mut self) {
        if !self.finished && !self.desk.outbox.has_released() {
            self.finished = true;
            self.stream.finish();
        }
    }

    /// Takes what has arrived. One call, because the inbox has room for more than a stream holds, or is full
    /// afterwards.
    fn pull(&mut self) -> bool {
        if self.ended.is_some() {
            return false;
        }
        // A peer is given up only after a last look.
        let is_decided = self.unsendable.is_some() || self.pulse.verdict(self.desk.awaited()).is_some();
        if std::mem::take(&mut self.is_drained) && !is_decided {
            return false;
        }
        if !self.inbox.make_room() {
            self.pulse.has_no_room();
            return false;
        }
        let requester = &mut self.desk.requester;
        match self.straight.receive(&mut self.stream, &mut self.pulse, &mut self.inbox, requester) {
            Ok(Arrival::Bytes(_)) => {
                self.is_drained = self.stream.is_drained();
                self.pulse.heard();
                true
            }
            Ok(Arrival::Nothing) => match self.unsendable.take() {
                Some(loss) => self.end(loss),
                None => false,
            },
            Ok(Arrival::End) => self.end(Loss::Gone),
            Err(loss) => self.end(loss),
        }
    }

    /// Notes that nothing can arrive any more.
    fn end(&mut self, loss: Loss) -> bool {
        self.desk.outbox.break_off();
        self.ended = Some((loss, self.pulse.now()));
        true
    }

    /// Sends what may leave.
    fn push(&mut self) -> bool {
        let Self { stream, pulse, desk: Desk { outbox, counters, .. }, .. } = self;
        match (Exit { outbox, stream, pulse, counters }).push() {
            Ok(moved) => moved,
            // Bytes that have arrived are still to be read.
            Err(loss) => {
                self.desk.outbox.break_off();
                self.unsendable = Some(loss);
                true
            }
        }
    }

    /// Deals with the link's own records up to the first frame for a room.
    fn handle_own(&mut self) -> Result<First, LinkError> {
        loop {
            let handled = match self.inbox.peek() {
                Ok(None) => return Ok(First::Nothing),
                Ok(Some((head, _))) if !head.kind.is_for_link() => return Ok(First::Frame),
                Ok(Some((head, payload))) => {
                    let is_last = self.inbox.holds_only(payload.len());
                    let record = (head, payload);
                    let handled = self.desk.handle(&mut self.stream, &mut self.pulse, record, is_last);
                    handled.map(|()| payload.len())
                }
                Err(violation) => Err(violation.into()),
            };
            match handled {
                Ok(len) => self.inbox.advance(len),
                Err(loss) => return Err(self.lose(loss)),
            }
        }
    }

    /// Reports the end if nothing is left to hand out before it.
    fn report_end(&mut self) -> Result<(), LinkError> {
        match self.ended.clone() {
            Some((loss, _)) => Err(self.lose(loss)),
            None => Ok(()),
        }
    }

    /// The last step of a link that is lost: bytes that are left may still leave.
    #[cold]
    fn linger(&mut self) {
        if !self.finished && matches!(self.lost, Some(LinkError { loss: Loss::ClosedHere, .. })) {
            self.push();
            self.finish_if_sent();
        }
    }
}

impl<S: ByteStream> Link for StreamLink<S> {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> Counters {
        self.desk.counters
    }

    fn backlog(&mut self) -> Backlog {
        let ((here, done), (leaving, left)) = (self.inbox.backlog(), self.desk.outbox.backlog());
        Backlog { held: here + leaving, moved: done + left }
    }

    #[inline]
    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, FrameSendError> {
        debug_assert!(self.peer.knows(head.kind), "{} does not know {}", self.peer, head.kind);
        self.check()?;
        let max = self.capabilities.max_payload;
        if len > max {
            return Err(FrameSendError::TooLong { len, max });
        }
        if !self.desk.admit(len) {
            return Err(FrameSendError::Full);
        }
        Ok(self.desk.outbox.reserve(head, len))
    }

    #[inline]
    fn commit(&mut self, len: usize) {
        self.desk.outbox.commit(len);
        self.desk.counters.frames_sent += 1;
        self.desk.counters.bytes_sent += len as u64;
    }

    #[inline]
    fn send(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), FrameSendError> {
        let len = payload.len();
        let fits = is_long_frame(len) && len <= self.capabilities.max_payload;
        if S::SENDS_STRAIGHT && fits && self.lost.is_none() && self.desk.outbox.is_idle() {
            if !self.desk.admit(len) {
                return Err(FrameSendError::Full);
            }
            let Self { stream, pulse, desk: Desk { outbox, counters, .. }, .. } = self;
            Exit { outbox, stream, pulse, counters }.frame_straight(head, payload);
            return Ok(());
        }
        self.reserve(head, len)?.write(0, payload);
        self.commit(len);
        Ok(())
    }

    #[inline]
    fn flush(&mut self) -> Result<(), LinkError> {
        self.check()?;
        self.desk.outbox.release();
        self.push();
        Ok(())
    }

    #[inline]
    fn receive<F>(&mut self, max_frames: usize, mut sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition,
    {
        self.check()?;
        let mut taken = 0;
        while taken < max_frames {
            let (head, payload) = match self.inbox.peek() {
                Ok(Some((head, payload))) if !head.kind.is_for_link() => (head, payload),
                _ => match self.handle_own() {
                    Ok(First::Frame) => continue,
                    // The next call tells the fault; this one tells how much was taken.
                    _ if taken > 0 => break,
                    Ok(First::Nothing) => {
                        self.report_end()?;
                        break;
                    }
                    Err(lost) => return Err(lost),
                },
            };
            let len = payload.len();
            self.is_deferred = sink(Frame { head, payload: Window::from(payload) }) == Disposition::Deferred;
            if self.is_deferred {
                break;
            }
            self.inbox.advance(len);
            self.desk.counters.frames_received += 1;
            self.desk.counters.bytes_received += len as u64;
            taken += 1;
        }
        if taken > 0 {
            self.pulse.worked();
        }
        Ok(taken)
    }

    fn progress(&mut self, now: Time) -> Result<bool, LinkError> {
        if let Some(lost) = &self.lost {
            let lost = lost.clone();
            self.linger();
            return Err(lost);
        }
        self.pulse.look(now);
        self.desk.server.begin_turn(now);
        let mut moved = self.pull();
        moved |= self.end_far();
        if let First::Nothing = self.handle_own()? {
            self.report_end()?;
        }
        if let Some((_, since)) = self.ended {
            // There is no peer to answer or to wait for; only frames are left to be taken.
            if self.is_deferred && self.pulse.now().since(since) >= LEGACY_KEPT {
                self.report_end()?;
            }
            return Ok(moved);
        }
        moved |= self.desk.answer_waiting().map_err(|violation| self.lose(violation.into()))?;
        if !self.desk.outbox.has_released()
            && let Some(number) = self.pulse.ping()
        {
            self.desk.outbox.liveness(&Liveness::Ping(number));
        }
        moved |= self.push();
        let awaited = self.desk.awaited();
        if !awaited.operations {
            self.pulse.worked();
        }
        match self.pulse.verdict(awaited) {
            None => Ok(moved),
            Some(loss) => Err(self.lose(loss)),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.lost.is_some() {
            return None;
        }
        if self.desk.server.has_torn() {
            return Some(self.pulse.now());
        }
        let next = self.pulse.next(self.desk.awaited());
        // Arrivals have to wait while there is no room for them.
        let event = if self.inbox.is_full() { None } else { self.stream.next_event() };
        Some(event.map_or(next, |event| event.min(next)))
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.push();
        self.inbox.make_room();
        let has_record = !matches!(self.inbox.peek(), Ok(None));
        let has_work = self.lost.is_some() || self.ended.is_some() || self.desk.requester.has_ended();
        let can_answer = self.desk.can_answer() || self.desk.server.has_torn();
        let can_take = self.stream.holds_back() && !self.inbox.is_full();
        (!has_record || self.is_deferred)
            && !(has_work || can_answer || can_take)
            && self.stream.prepare_to_wait()
    }

    fn polled(&mut self, has_something: bool) {
        self.is_drained = !has_something && S::DESCRIPTOR_TELLS && !self.stream.holds_back();
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        let descriptor = self.stream.descriptor()?;
        // One that waits for its turn, or for memory.
        let readable = !self.inbox.is_full();
        Some(WaitOn { descriptor, readable, writable: self.desk.outbox.has_released() })
    }

    fn close(&mut self, reason: &str) {
        if self.lost.is_none() {
            self.say_goodbye(0, reason);
            self.lose(Loss::ClosedHere);
        }
    }
}

impl<S: ByteStream> Drop for StreamLink<S> {
    fn drop(&mut self) {
        if !self.finished {
            self.push();
            self.stream.finish();
        }
    }
}
