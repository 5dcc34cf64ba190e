//! One end of a shared-memory link.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::access::{Reply, Request, Slot, Status};
use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, Grant, Rights, Text, Time};

use super::channel::{Channel, MESSAGE_MAX, Received, read_message};
use super::regions::{Opening, Regions};
use super::rings::{Incoming, Outgoing};
use crate::export::ExportView;
use crate::memory::{AdoptError, Buffer, Segment, Window, WindowMut};
use crate::remote::Asked;
use crate::ring::record_len;
use crate::{
    AccessError, Capabilities, Completion, Counters, Disposition, Frame, Link, LinkError, Loss, OpenRegion,
    Outcome, Peer, RemoteMemory, SendError, Token, Violation, WaitOn,
};

/// How many messages of the socket are read in one turn.
const MESSAGES_PER_TURN: usize = 64;

/// A link between two processes of one node.
pub struct ShmLink {
    pub(super) peer: Peer,
    pub(super) capabilities: Capabilities,
    pub(super) counters: Counters,
    pub(super) channel: Channel,
    /// Keeps the cursors mapped for whoever takes the link apart.
    pub(super) segment: Arc<Segment>,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// The frame that was reserved and not committed.
    pub(super) reserved: Option<(FrameHead, usize)>,
    /// How much room the last sender was refused.
    pub(super) wanted_room: u64,
    pub(super) lost: Option<LinkError>,
    pub(super) look_interval: Duration,
    pub(super) next_look: Time,
    pub(super) exports: ExportView,
    pub(super) regions: Regions,
    pub(super) regions_max: usize,
    /// How many of our regions the peer holds open.
    pub(super) regions_given: usize,
    /// Answers to openings that the socket had no room for.
    pub(super) unsent: VecDeque<(u32, Reply, Option<OwnedFd>)>,
    pub(super) completions: VecDeque<Completion>,
}

impl ShmLink {
    #[cold]
    fn lose(&mut self, loss: Loss) -> LinkError {
        if self.lost.is_none() {
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

    /// A loss after which nothing more that the peer wrote is believed.
    fn broken(&self) -> Option<&LinkError> {
        self.lost.as_ref().filter(|lost| matches!(lost.loss, Loss::Broke(_) | Loss::ClosedHere))
    }

    /// Reads what the socket holds. Returns whether there was anything.
    fn look_at_socket(&mut self) -> Result<bool, LinkError> {
        let mut bytes = [0; MESSAGE_MAX];
        let mut moved = false;
        for _ in 0..MESSAGES_PER_TURN {
            let received = self.channel.receive(&mut bytes).map_err(|loss| self.lose(loss))?;
            match received {
                Received::Nothing => break,
                Received::Doorbell => {}
                Received::Message(len, descriptor) => {
                    let handled = read_message(&bytes[..len]).map_err(Loss::from);
                    handled
                        .and_then(|(head, payload)| self.handle_message(head, payload, descriptor))
                        .map_err(|loss| self.lose(loss))?;
                }
            }
            moved = true;
        }
        Ok(moved)
    }

    fn handle_message(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        descriptor: Option<OwnedFd>,
    ) -> Result<(), Loss> {
        if Liveness::reads(head.kind) {
            return match Liveness::decode(head.kind, payload).map_err(Violation::from)? {
                Liveness::Goodbye { reason, .. } => Err(Loss::Closed { reason: reason.to_string() }),
                Liveness::Ping(_) | Liveness::Pong(_) => Ok(()),
            };
        }
        if Reply::is_reply(head.kind) {
            let reply = Reply::decode(head.kind, payload).map_err(Violation::from)?;
            return self.handle_reply(head.tag, reply, descriptor);
        }
        match Request::decode(head.kind, payload, 0).map_err(Violation::from)? {
            Request::Open { region, generation, rights, key } => {
                let opened = self.exports.open(region, generation, &key, rights);
                let given = opened.and_then(|export| self.give(&export.memory, rights));
                self.answer_open(head.tag, given)
            }
            Request::Close { .. } => {
                self.regions_given = self.regions_given.saturating_sub(1);
                Ok(())
            }
            // The memory is mapped at the peer: it has no reason to ask.
            _ => Err(Loss::Broke(Violation::UnknownReply { tag: head.tag })),
        }
    }

    /// A descriptor for the peer that allows no more than `rights`.
    fn give(&mut self, memory: &Segment, rights: Rights) -> Result<(OwnedFd, u64), Status> {
        if self.regions_given >= self.regions_max {
            return Err(Status::Busy);
        }
        let descriptor = if rights.includes(Rights::WRITE) {
            memory.descriptor().try_clone_to_owned().map_err(|_| Status::Busy)?
        } else {
            memory.read_only_descriptor().map_err(|_| Status::Busy)?
        };
        self.regions_given += 1;
        Ok((descriptor, memory.len() as u64))
    }

    fn answer_open(&mut self, tag: u32, given: Result<(OwnedFd, u64), Status>) -> Result<(), Loss> {
        let (status, size, descriptor) = match given {
            Ok((descriptor, size)) => (Status::Done, size, Some(descriptor)),
            Err(status) => (status, 0, None),
        };
        self.counters.accesses_served += 1;
        self.unsent.push_back((tag, Reply::Opened { status, slot: Slot(0), size }, descriptor));
        if self.unsent.len() > self.regions_max {
            return Err(Violation::TooManyOperations { max: self.regions_max }.into());
        }
        self.send_answers()
    }

    fn send_answers(&mut self) -> Result<(), Loss> {
        while let Some((tag, reply, descriptor)) = self.unsent.front() {
            let head = FrameHead::new(reply.kind()).with_tag(*tag);
            let descriptor = descriptor.as_ref().map(std::os::fd::AsFd::as_fd);
            if !self.channel.send_message(head, reply.encode().as_bytes(), descriptor)? {
                break;
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    fn handle_reply(&mut self, tag: u32, reply: Reply, descriptor: Option<OwnedFd>) -> Result<(), Loss> {
        let Reply::Opened { status, size, .. } = reply else {
            return Err(Violation::UnknownReply { tag }.into());
        };
        let Some(Opening { token, asked }) = self.regions.answered(tag) else {
            return Err(Violation::UnknownReply { tag }.into());
        };
        let result = match asked.verdict(status) {
            Ok(()) => {
                let descriptor = descriptor.ok_or(Violation::Segment("missing"))?;
                match self.regions.map(descriptor, &Asked { size, ..asked }) {
                    Ok(region) => Ok(Outcome::Opened(region)),
                    Err(AdoptError::Violation(violation)) => return Err(violation.into()),
                    Err(AdoptError::System(source)) => return Err(Loss::System { call: "mmap", source }),
                }
            }
            Err(error) => Err(error),
        };
        self.completions.push_back(Completion { token, result });
        Ok(())
    }

    /// Begins an operation that ends at once.
    #[inline]
    fn begin(&mut self) -> Result<(), AccessError> {
        if let Some(lost) = &self.lost {
            return Err(AccessError::Lost(lost.clone()));
        }
        if self.completions.len() >= self.capabilities.max_operations {
            return Err(AccessError::Full);
        }
        self.counters.accesses += 1;
        Ok(())
    }

    #[inline]
    fn end(&mut self, token: Token, outcome: Outcome) {
        self.completions.push_back(Completion { token, result: Ok(outcome) });
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

    #[inline]
    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, SendError> {
        if let Some(lost) = &self.lost {
            return Err(SendError::Lost(lost.clone()));
        }
        let max = self.capabilities.max_payload;
        if len > max {
            return Err(SendError::TooLong { len, max });
        }
        let need = record_len(len) as u64;
        match self.outgoing.producer.has_room(need) {
            Ok(true) => {}
            Ok(false) => {
                self.wanted_room = need;
                self.counters.full += 1;
                return Err(SendError::Full);
            }
            Err(violation) => return Err(SendError::Lost(self.lose(violation.into()))),
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
    fn flush(&mut self) -> Result<(), LinkError> {
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
        if self.lost.is_none() {
            if now < self.next_look {
                return Ok(false);
            }
            self.next_look = now + self.look_interval;
            let sent = self.send_answers().map_err(|loss| self.lose(loss));
            match sent.and_then(|()| self.look_at_socket()) {
                Ok(moved) => return Ok(moved),
                Err(lost) if matches!(lost.loss, Loss::Broke(_)) => return Err(lost),
                Err(_) => {}
            }
        }
        if let Some(broken) = self.broken() {
            return Err(broken.clone());
        }
        // What the peer sent before it was lost comes first.
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
        // Whoever sleeps has no use for a pause between two looks at the socket.
        self.next_look = Time::ZERO;
        if self.lost.is_some() || !self.completions.is_empty() {
            return false;
        }
        let wanted = std::mem::take(&mut self.wanted_room);
        let for_room = if wanted > 0 { self.outgoing.producer.prepare_to_wait(wanted) } else { Ok(true) };
        match for_room.and_then(|asleep| Ok(asleep && self.incoming.consumer.prepare_to_wait()?)) {
            Ok(asleep) => asleep,
            Err(violation) => {
                self.lose(violation.into());
                false
            }
        }
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        Some(WaitOn { descriptor: self.channel.descriptor(), writable: !self.unsent.is_empty() })
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

impl RemoteMemory for ShmLink {
    fn open(&mut self, grant: &Grant, rights: Rights, token: Token) -> Result<(), AccessError> {
        self.begin()?;
        if self.regions.count() >= self.regions_max {
            return Err(AccessError::Full);
        }
        let asked = Asked { offset: 0, len: 0, size: grant.size, needed: rights };
        let tag = self.regions.begin(Opening { token, asked });
        let Grant { region, generation, key, .. } = *grant;
        let request = Request::Open { region, generation, rights, key };
        let head = FrameHead::new(request.kind()).with_tag(tag);
        match self.channel.send_message(head, request.encode().as_bytes(), None) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.regions.answered(tag);
                Err(AccessError::Full)
            }
            Err(loss) => {
                self.regions.answered(tag);
                Err(AccessError::Lost(self.lose(loss)))
            }
        }
    }

    fn close_region(&mut self, region: OpenRegion) {
        if self.regions.close(region) && self.lost.is_none() {
            let request = Request::Close { slot: Slot(region.index) };
            let head = FrameHead::new(request.kind());
            // Only the owner's count suffers if this is not sent, until the link ends.
            let _ = self.channel.send_message(head, request.encode().as_bytes(), None);
        }
    }

    #[inline]
    fn read(
        &mut self,
        region: OpenRegion,
        offset: u64,
        into: &Buffer,
        into_offset: usize,
        len: usize,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin()?;
        let mapped = self.regions.get(region, (offset, len), Rights::READ, false)?;
        let source = mapped.segment.window(offset as usize, len);
        source.read_into(&into.window_mut().part(into_offset, len));
        self.end(token, Outcome::Read);
        Ok(())
    }

    #[inline]
    fn write(
        &mut self,
        region: OpenRegion,
        offset: u64,
        data: Window<'_>,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin()?;
        let mapped = self.regions.get(region, (offset, data.len()), Rights::WRITE, false)?;
        mapped.segment.window_mut(offset as usize, data.len()).write_window(0, data);
        self.end(token, Outcome::Written);
        Ok(())
    }

    #[inline]
    fn compare_swap(
        &mut self,
        region: OpenRegion,
        offset: u64,
        expected: u64,
        desired: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        use std::sync::atomic::Ordering::SeqCst;
        self.begin()?;
        let mapped = self.regions.get(region, (offset, 8), Rights::WRITE, true)?;
        let word = mapped.segment.word(offset as usize);
        let old = match word.compare_exchange(expected, desired, SeqCst, SeqCst) {
            Ok(old) | Err(old) => old,
        };
        self.end(token, Outcome::Old(old));
        Ok(())
    }

    #[inline]
    fn fetch_add(
        &mut self,
        region: OpenRegion,
        offset: u64,
        addend: u64,
        token: Token,
    ) -> Result<(), AccessError> {
        self.begin()?;
        let mapped = self.regions.get(region, (offset, 8), Rights::WRITE, true)?;
        let old = mapped.segment.word(offset as usize).fetch_add(addend, std::sync::atomic::Ordering::SeqCst);
        self.end(token, Outcome::Old(old));
        Ok(())
    }

    #[inline]
    fn completions<F: FnMut(Completion)>(&mut self, mut sink: F) -> usize {
        let count = self.completions.len();
        for completion in self.completions.drain(..) {
            sink(completion);
        }
        count
    }
}
