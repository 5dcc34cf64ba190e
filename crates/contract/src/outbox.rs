//! Answers that wait for their link to have room.

use std::collections::{HashMap, VecDeque};

use outboard_limits::QueueMemory;
use outboard_wire::FrameHead;
use outboard_wire::control::{ControlAnswer, ControlFailure};

use crate::{FrameSendError, Link, LinkError, LinkId};

/// How many answers may wait for one link. A client that asks and never listens is no longer heard then.
const WAITING_MAX: usize = 1024;
/// How many bytes their payloads may have.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// How many bytes wait for which no memory has to be asked for, and how much is asked for at a time for more.
const WAITING_BYTES_FREE: usize = 64 << 10;
const STEP: u64 = 64 << 10;

/// How many places and bytes an empty queue keeps: enough for the answers of one turn, so that they need no allocation.
const PLACES_KEPT: usize = 256;
const BYTES_KEPT: usize = 64 << 10;

/// What a frame carries.
enum Payload {
    /// So many bytes of the queue's own, behind those of the frames before.
    Copied(usize),
    Given(Vec<u8>),
    Lasting(&'static [u8]),
}

/// The frames that wait for one link.
#[derive(Default)]
struct Queue {
    frames: VecDeque<(FrameHead, Payload)>,
    /// The payloads that were copied, one behind the other, of frames that wait and of some that were sent.
    bytes: Vec<u8>,
    /// How many of them are of frames that were sent.
    sent: usize,
    /// The bytes of payloads that were given and wait.
    given: usize,
    /// Whether it is known to hold something.
    is_listed: bool,
    memory: QueueMemory,
}

impl Queue {
    #[inline]
    fn push_copy(&mut self, head: FrameHead, parts: [&[u8]; 2]) {
        let before = self.bytes.len();
        parts.into_iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.frames.push_back((head, Payload::Copied(self.bytes.len() - before)));
    }

    #[inline]
    fn has_room(&self) -> bool {
        let waiting = self.bytes.len() - self.sent + self.given;
        let has_memory =
            || waiting < WAITING_BYTES_FREE + self.memory.taken() as usize || self.memory.grow(STEP);
        self.frames.len() < WAITING_MAX && waiting < WAITING_BYTES_MAX && has_memory()
    }

    fn push(&mut self, head: FrameHead, payload: Vec<u8>) {
        self.given += payload.len();
        self.frames.push_back((head, Payload::Given(payload)));
    }

    /// The frames that wait, with their payloads.
    fn frames(&self) -> impl Iterator<Item = (FrameHead, &[u8])> {
        let mut at = self.sent;
        self.frames.iter().map(move |(head, payload)| {
            let payload = match payload {
                Payload::Copied(len) => {
                    at += len;
                    &self.bytes[at - len..at]
                }
                Payload::Given(bytes) => bytes,
                Payload::Lasting(bytes) => bytes,
            };
            (*head, payload)
        })
    }

    /// So many frames were sent.
    fn forget(&mut self, count: usize) {
        for (_, payload) in self.frames.drain(..count) {
            match payload {
                Payload::Copied(len) => self.sent += len,
                Payload::Given(bytes) => self.given -= bytes.len(),
                Payload::Lasting(_) => {}
            }
        }
        if self.frames.is_empty() {
            self.frames.shrink_to(PLACES_KEPT);
            self.bytes.clear();
            self.bytes.shrink_to(BYTES_KEPT);
            self.memory = QueueMemory::default();
            self.sent = 0;
        } else if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

/// Answers that wait for their links to have room.
#[derive(Default)]
pub struct Outbox {
    queues: Vec<Queue>,
    /// Which queue is whose.
    places: HashMap<LinkId, usize>,
    /// Queues without a link.
    vacant: Vec<usize>,
    /// The link that was asked for last, which is asked for next most of the time.
    latest: Option<(LinkId, usize)>,
    /// The links whose queues may hold something.
    filled: Vec<LinkId>,
}

impl Outbox {
    /// Whether another question from this link can be taken.
    #[inline]
    pub fn has_room(&self, link: LinkId) -> bool {
        self.place(link).is_none_or(|place| self.queues[place].has_room())
    }

    #[inline]
    fn place(&self, link: LinkId) -> Option<usize> {
        match self.latest {
            Some((latest, place)) if latest == link => Some(place),
            _ => self.places.get(&link).copied(),
        }
    }

    /// The queue of a link, which has one from now on.
    #[inline]
    fn queue(&mut self, link: LinkId) -> &mut Queue {
        let place = self.place(link).unwrap_or_else(|| {
            let place = self.vacant.pop().unwrap_or_else(|| {
                self.queues.push(Queue::default());
                self.queues.len() - 1
            });
            self.places.insert(link, place);
            place
        });
        self.latest = Some((link, place));
        let queue = &mut self.queues[place];
        if !queue.is_listed {
            queue.is_listed = true;
            self.filled.push(link);
        }
        queue
    }

    /// Adds the links for which something waits.
    pub fn rouse(&mut self, links: &mut Vec<LinkId>) {
        let Self { filled, places, queues, .. } = self;
        filled.retain(|link| {
            let queue = places.get(link).and_then(|place| queues.get_mut(*place));
            queue.is_some_and(|queue| {
                queue.is_listed = !queue.frames.is_empty();
                queue.is_listed
            })
        });
        links.extend_from_slice(filled);
    }

    /// Queues an answer to the question with this tag.
    pub fn answer(&mut self, link: LinkId, tag: u32, answer: &ControlAnswer) {
        let mut payload = Vec::new();
        answer.encode(&mut payload);
        self.push(link, FrameHead::new(answer.kind()).with_tag(tag), payload);
    }

    /// Queues a frame.
    pub fn push(&mut self, link: LinkId, head: FrameHead, payload: Vec<u8>) {
        self.queue(link).push(head, payload);
    }

    /// Queues a frame with a copy of `payload`, for which no memory is allocated most of the time.
    #[inline]
    pub fn push_copy(&mut self, link: LinkId, head: FrameHead, payload: &[u8]) {
        self.queue(link).push_copy(head, [payload, &[]]);
    }

    /// Queues a frame with a copy of a payload that lies in two places.
    #[inline]
    pub fn push_parts(&mut self, link: LinkId, head: FrameHead, parts: [&[u8]; 2]) {
        self.queue(link).push_copy(head, parts);
    }

    /// Queues a frame whose payload is always there, whatever its length.
    pub fn push_static(&mut self, link: LinkId, head: FrameHead, payload: &'static [u8]) {
        self.queue(link).frames.push_back((head, Payload::Lasting(payload)));
    }

    /// Sends what fits. Returns whether anything was sent.
    #[inline]
    pub fn send<L: Link>(&mut self, id: LinkId, link: &mut L) -> Result<bool, LinkError> {
        let Some(place) = self.place(id) else { return Ok(false) };
        let queue = &mut self.queues[place];
        let mut any_sent = false;
        while !queue.frames.is_empty() {
            match link.send_batch(queue.frames()) {
                Ok(0) | Err(FrameSendError::Full) => break,
                Ok(sent) => {
                    any_sent = true;
                    queue.forget(sent);
                }
                Err(FrameSendError::TooLong { len, max }) => {
                    let tag = queue.frames.front().map_or(0, |(head, _)| head.tag);
                    queue.forget(1);
                    let (head, payload) = too_long(tag, len, max);
                    queue.given += payload.len();
                    queue.frames.push_front((head, Payload::Given(payload)));
                }
                Err(FrameSendError::Lost(error)) => return Err(error),
            }
        }
        Ok(any_sent)
    }

    /// Forgets a link.
    pub fn forget(&mut self, link: LinkId) {
        self.latest = None;
        if let Some(place) = self.places.remove(&link) {
            self.queues[place] = Queue::default();
            self.vacant.push(place);
        }
    }
}

/// Says in place of an answer that it does not fit the link, so that the client does not wait for it.
fn too_long(tag: u32, len: usize, max: usize) -> (FrameHead, Vec<u8>) {
    let detail =
        format!("the answer has {len} bytes and this link carries {max}; raise link.ring on both sides");
    let answer = ControlAnswer::failed(ControlFailure::TooLong, &detail);
    let mut payload = Vec::new();
    answer.encode(&mut payload);
    (FrameHead::new(answer.kind()).with_tag(tag), payload)
}

#[cfg(test)]
mod tests {
    use outboard_wire::{FrameKind, Room};

    use super::*;

    #[test]
    fn who_never_listens_costs_so_many_bytes_however_few_frames_they_are() {
        let head = FrameHead::new(FrameKind::new(Room::Control, 35));
        let (mut outbox, part) = (Outbox::default(), 64 << 10);
        for (link, is_copied) in [(LinkId(1), true), (LinkId(2), false)] {
            let mut pushed = 0;
            while outbox.has_room(link) {
                match is_copied {
                    true => outbox.push_copy(link, head, &vec![7; part]),
                    false => outbox.push(link, head, vec![7; part]),
                }
                pushed += part;
            }
            assert_eq!(pushed, WAITING_BYTES_MAX);
            outbox.queue(link).forget(1);
            assert!(outbox.has_room(link));
        }
    }

    #[test]
    fn payloads_keep_their_order_and_their_bytes_however_many_are_sent_at_once() {
        let head = |tag| FrameHead::new(FrameKind::new(Room::Control, 35)).with_tag(tag);
        for at_once in 1..7 {
            let (mut queue, mut pushed, mut sent) = (Queue::default(), 0u32, 0u32);
            let expected = |tag: u32| vec![tag as u8; tag as usize % 40];
            while sent < 500 {
                let more = if pushed < 500 { at_once + pushed % 3 } else { 0 };
                for _ in 0..more {
                    let (bytes, half) = (expected(pushed), pushed as usize % 40 / 2);
                    match pushed % 5 {
                        3 => queue.push(head(pushed), bytes),
                        _ => queue.push_copy(head(pushed), [&bytes[..half], &bytes[half..]]),
                    }
                    pushed += 1;
                }
                let count = (at_once as usize).min(queue.frames.len());
                for (head, payload) in queue.frames().take(count) {
                    assert_eq!(payload, expected(head.tag));
                    assert_eq!(head.tag, sent);
                    sent += 1;
                }
                queue.forget(count);
            }
            queue.forget(queue.frames.len());
            assert_eq!((queue.bytes.len(), queue.sent, queue.given), (0, 0, 0));
        }
    }

    #[test]
    fn a_place_that_was_forgotten_is_anothers() {
        let (mut outbox, head) = (Outbox::default(), FrameHead::new(FrameKind::new(Room::Control, 35)));
        for _ in 0..WAITING_MAX {
            outbox.push_copy(LinkId(1), head, &[1; 100]);
        }
        outbox.push_copy(LinkId(2), head, &[]);
        assert!(!outbox.has_room(LinkId(1)) && outbox.has_room(LinkId(2)) && outbox.has_room(LinkId(3)));
        outbox.forget(LinkId(1));
        outbox.push_static(LinkId(3), head, &[]);
        assert!(outbox.has_room(LinkId(1)) && outbox.has_room(LinkId(3)));
        assert_eq!((outbox.queues.len(), outbox.queue(LinkId(3)).frames.len()), (2, 1));
    }
}
