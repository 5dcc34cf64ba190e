//! One end of a shared-memory link.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::access::AccessStatus;
use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, Text, Time};

use super::channel::Channel;
use super::messages::Gift;
use super::regions::Regions;
use super::rings::{Incoming, Outgoing};
use crate::memory::{Mapping, WindowMut};
use crate::patience::LEGACY_KEPT;
use crate::ring::record_len;
use crate::{
    AccessError, Backlog, Capabilities, Completion, Counters, Disposition, Exports, Frame, FrameSendError,
    Link, LinkError, Loss, Peer, WaitOn,
};

/// A link between two processes of one node.
pub struct ShmLink {
    pub(super) peer: Peer,
    pub(super) capabilities: Capabilities,
    pub(super) counters: Counters,
    pub(super) channel: Channel,
    /// Keeps the cursors mapped for tests that take the link apart.
    pub(super) segment: Arc<Mapping>,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// The frame that was reserved and not committed.
    pub(super) reserved: Option<(FrameHead, usize)>,
    /// How much room the last sender was refused.
    pub(super) wanted_room: u64,
    /// Whether the next frame was deferred when it was last offered.
    pub(super) is_deferred: bool,
    pub(super) lost: Option<LinkError>,
    /// Since when a loss is kept back because frames are left.
    pub(super) kept_since: Option<Time>,
    /// Whether the loss was reported though frames are left: the service has not taken them in time.
    pub(super) is_over: bool,
    pub(super) look_interval: Duration,
    pub(super) next_look: Time,
    /// The poller has seen that there is nothing to read in the socket: the next look can be left out.
    pub(super) is_drained: bool,
    pub(super) exports: Arc<Exports>,
    pub(super) regions: Regions,
    pub(super) regions_max: usize,
    /// How many of our regions the peer holds open.
    pub(super) regions_given: usize,
    /// Answers to openings that the socket had no room for.
    pub(super) unsent: VecDeque<(u32, Result<Gift, AccessStatus>)>,
    pub(super) completions: VecDeque<Completion>,
}

impl ShmLink {
    #[cold]
    pub(super) fn lose(&mut self, loss: Loss) -> LinkError {
        if self.lost.is_none() {
            let loss = if loss == Loss::Gone { self.channel.farewell() } else { loss };
            self.lost = Some(LinkError { peer: self.peer.clone(), loss });
            self.fail_openings();
        }
        self.lost.clone().unwrap_or_else(|| LinkError { peer: self.peer.clone(), loss: Loss::Gone })
    }

    fn fail_openings(&mut self) {
        if let Some(lost) = &self.lost {
            let failed = self.regions.abandon().map(|opening| {
                let result = Err(AccessError::Lost(lost.clone()));
                Completion { token: opening.token, result }
            });
            self.completions.extend(failed);
        }
    }

    /// A loss after which nothing more that the peer wrote is believed, or wanted.
    fn broken(&self) -> Option<&LinkError> {
        let is_broken = |loss: &Loss| matches!(loss, Loss::Broke(_) | Loss::ClosedHere);
        self.lost.as_ref().filter(|lost| self.is_over || is_broken(&lost.loss))
    }
}

impl Link for ShmLink {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn backlog(&mut self) -> Backlog {
        // The next call that looks at the ring tells of a count that cannot be.
        let (held, moved) = self.outgoing.producer.unread().unwrap_or_default();
        Backlog { held, moved }
    }

    #[inline]
    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, FrameSendError> {
        debug_assert!(self.peer.knows(head.kind), "{} does not know {}", self.peer, head.kind);
        if let Some(lost) = &self.lost {
            return Err(FrameSendError::Lost(lost.clone()));
        }
        let max = self.capabilities.max_payload;
        if len > max {
            return Err(FrameSendError::TooLong { len, max });
        }
        let need = record_len(len) as u64;
        match self.outgoing.has_room(need) {
            Ok(true) => {}
            Ok(false) => {
                self.wanted_room = need;
                self.counters.full += 1;
                // The peer can make room only by taking what it sees.
                self.flush()?;
                return Err(FrameSendError::Full);
            }
            Err(violation) => return Err(FrameSendError::Lost(self.lose(violation.into()))),
        }
        self.reserved = Some((head, len));
        Ok(self.outgoing.payload(len))
    }

    #[inline]
    fn commit(&mut self, len: usize) {
        let reserved = self.reserved.take().filter(|(_, most)| len <= *most);
        // A programmer's error, as the trait says.
        let (head, _) = reserved.expect("commit follows a reserve of at least this length");
        self.outgoing.append(head, len);
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += len as u64;
    }

    #[inline]
    fn send_batch<'a, I>(&mut self, frames: I) -> Result<usize, FrameSendError>
    where
        I: IntoIterator<Item = (FrameHead, &'a [u8])>,
    {
        self.reserved = None;
        let mut frames = frames.into_iter();
        let mut sent = 0;
        loop {
            let (count, bytes, refused) =
                self.outgoing.append_known(&mut frames, self.capabilities.max_payload);
            self.counters.frames_sent += count;
            self.counters.bytes_sent += bytes;
            sent += count as usize;
            // The usual way finds out whether it is too long, or whether the peer has made room meanwhile.
            let Some((head, payload)) = refused else { return Ok(sent) };
            match self.send(head, payload) {
                Ok(()) => sent += 1,
                Err(FrameSendError::Full | FrameSendError::TooLong { .. }) if sent > 0 => return Ok(sent),
                Err(error) => return Err(error),
            }
        }
    }

    #[inline]
    fn flush(&mut self) -> Result<(), LinkError> {
        self.reserved = None;
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        if self.outgoing.producer.is_dirty() && self.outgoing.producer.publish() {
            self.counters.doorbells += 1;
            self.channel.ring().map_err(|loss| self.lose(loss))?;
        }
        Ok(())
    }

    #[inline]
    fn receive<F>(&mut self, max_frames: usize, mut sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition,
    {
        self.reserved = None;
        if let Some(broken) = self.broken() {
            return Err(broken.clone());
        }
        let mut taken = 0;
        let mut deferred = false;
        while taken < max_frames && !deferred {
            match self.incoming.peek() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    let len = frame.payload.len();
                    match sink(frame) {
                        Disposition::Taken => {
                            self.incoming.consumer.advance(record_len(len) as u64);
                            self.counters.bytes_received += len as u64;
                            taken += 1;
                        }
                        Disposition::Deferred => deferred = true,
                    }
                }
                Err(violation) => return Err(self.lose(violation.into())),
            }
        }
        self.is_deferred = deferred;
        if taken > 0 {
            self.counters.frames_received += taken as u64;
            if self.incoming.consumer.release() && self.lost.is_none() {
                self.counters.doorbells += 1;
                // A peer that has gone is reported once everything it sent is taken.
                let _ = self.channel.ring().map_err(|loss| self.lose(loss));
            }
        } else if let (Some(lost), false) = (&self.lost, deferred) {
            return Err(lost.clone());
        }
        Ok(taken)
    }

    fn progress(&mut self, now: Time) -> Result<bool, LinkError> {
        self.reserved = None;
        if self.lost.is_none() {
            if now < self.next_look {
                return Ok(false);
            }
            self.next_look = now + self.look_interval;
            if std::mem::take(&mut self.is_drained) && self.unsent.is_empty() {
                return Ok(false);
            }
            let sent = self.send_answers().map_err(|loss| self.lose(loss));
            match sent.and_then(|()| self.look_at_socket()) {
                Ok(moved) => return Ok(moved),
                Err(lost) if matches!(lost.loss, Loss::Broke(_)) => return Err(lost),
                Err(_) => {}
            }
        }
        let kept_since = *self.kept_since.get_or_insert(now);
        self.is_over |= self.is_deferred && now.since(kept_since) >= LEGACY_KEPT;
        if let Some(broken) = self.broken() {
            return Err(broken.clone());
        }
        // Frames that the peer sent before it was lost come first.
        match self.incoming.consumer.available() {
            Ok(0) => Err(self.lose(Loss::Gone)),
            Ok(_) => Ok(true),
            Err(violation) => Err(self.lose(violation.into())),
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }

    fn prepare_to_wait(&mut self) -> bool {
        self.reserved = None;
        // A thread that sleeps has no use for a pause between two looks at the socket.
        self.next_look = Time::ZERO;
        if self.lost.is_some() || !self.completions.is_empty() {
            return false;
        }
        let wanted = std::mem::take(&mut self.wanted_room);
        let for_room = if wanted > 0 { self.outgoing.producer.prepare_to_wait(wanted) } else { Ok(true) };
        let for_frames =
            |asleep| Ok(asleep && (self.is_deferred || self.incoming.consumer.prepare_to_wait()?));
        match for_room.and_then(for_frames) {
            Ok(asleep) => asleep,
            Err(violation) => {
                self.lose(violation.into());
                false
            }
        }
    }

    fn polled(&mut self, has_something: bool) {
        self.is_drained = !has_something;
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        let descriptor = self.channel.descriptor();
        Some(WaitOn { descriptor, readable: true, writable: !self.unsent.is_empty() })
    }

    fn close(&mut self, reason: &str) {
        if self.lost.is_some() {
            return;
        }
        // The peer learns of the end by the socket's closing if these words do not reach it.
        let _ = self.flush();
        let goodbye = Liveness::Goodbye { code: 0, reason: Text::new(reason) };
        let mut payload = Vec::new();
        goodbye.encode(&mut payload);
        let _ = self.channel.send_message(FrameHead::new(goodbye.kind()), &payload, None);
        self.lose(Loss::ClosedHere);
    }
}
