//! Answers that wait for their link to have room.

use std::collections::{HashMap, VecDeque};

use outboard_link::{Link, LinkError, SendError};
use outboard_wire::FrameHead;
use outboard_wire::control::{ControlAnswer, Failure};

use crate::LinkId;

/// How many answers may wait for one link. A client that asks and never listens is no longer heard then.
const WAITING_MAX: usize = 1024;

/// How many places an empty queue keeps: enough for the answers of one turn, so that they need no allocation.
const PLACES_KEPT: usize = 256;

/// The longest payload that lies in the queue itself, in bytes.
const SHORT_MAX: usize = 32;

/// The longest buffer that is kept for another payload, in bytes.
const KEPT_LEN_MAX: usize = 4096;

/// What a frame carries.
enum Payload {
    Short { bytes: [u8; SHORT_MAX], len: u8 },
    Long(Vec<u8>),
    Lasting(&'static [u8]),
}

impl Payload {
    fn copy(bytes: &[u8], spare: &mut Vec<Vec<u8>>) -> Self {
        let mut short = [0; SHORT_MAX];
        match short.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                Self::Short { bytes: short, len: bytes.len() as u8 }
            }
            None => {
                let mut long = spare.pop().unwrap_or_default();
                long.clear();
                long.extend_from_slice(bytes);
                Self::Long(long)
            }
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { bytes, len } => &bytes[..usize::from(*len)],
            Self::Long(bytes) => bytes,
            Self::Lasting(bytes) => bytes,
        }
    }
}

type Queue = VecDeque<(FrameHead, Payload)>;

/// Answers that wait for their links to have room.
#[derive(Default)]
pub struct Outbox {
    queues: Vec<Queue>,
    /// Which queue is whose.
    places: HashMap<LinkId, usize>,
    /// Queues that are nobody's.
    vacant: Vec<usize>,
    /// The link that was asked for last, which is asked for next most of the time.
    latest: Option<(LinkId, usize)>,
    /// Buffers of payloads that were sent.
    spare: Vec<Vec<u8>>,
}

impl Outbox {
    /// Whether another question from this link can be taken.
    #[inline]
    pub fn has_room(&self, link: LinkId) -> bool {
        self.place(link).is_none_or(|place| self.queues[place].len() < WAITING_MAX)
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
                self.queues.push(Queue::new());
                self.queues.len() - 1
            });
            self.places.insert(link, place);
            place
        });
        self.latest = Some((link, place));
        &mut self.queues[place]
    }

    /// Queues an answer to the question with this tag.
    pub fn answer(&mut self, link: LinkId, tag: u32, answer: &ControlAnswer) {
        let mut payload = Vec::new();
        answer.encode(&mut payload);
        self.push(link, FrameHead::new(answer.kind()).with_tag(tag), payload);
    }

    /// Queues a frame.
    pub fn push(&mut self, link: LinkId, head: FrameHead, payload: Vec<u8>) {
        self.queue(link).push_back((head, Payload::Long(payload)));
    }

    /// Queues a frame with a copy of `payload`, for which no memory is allocated most of the time.
    pub fn push_copy(&mut self, link: LinkId, head: FrameHead, payload: &[u8]) {
        let payload = Payload::copy(payload, &mut self.spare);
        self.queue(link).push_back((head, payload));
    }

    /// Queues a frame whose payload is always there, whatever its length.
    pub fn push_static(&mut self, link: LinkId, head: FrameHead, payload: &'static [u8]) {
        self.queue(link).push_back((head, Payload::Lasting(payload)));
    }

    /// Sends what fits. Returns whether anything was sent.
    pub fn send<L: Link>(&mut self, id: LinkId, link: &mut L) -> Result<bool, LinkError> {
        let Some(place) = self.place(id) else { return Ok(false) };
        let (queue, spare) = (&mut self.queues[place], &mut self.spare);
        let mut any_sent = false;
        while !queue.is_empty() {
            match link.send_batch(queue.iter().map(|(head, payload)| (*head, payload.as_bytes()))) {
                Ok(sent) => {
                    any_sent |= sent > 0;
                    for (_, payload) in queue.drain(..sent) {
                        keep(payload, spare);
                    }
                    if sent == 0 {
                        break;
                    }
                }
                Err(SendError::TooLong { len, max }) => {
                    let tag = queue.pop_front().map_or(0, |(head, _)| head.tag);
                    queue.push_front(too_long(tag, len, max));
                }
                Err(SendError::Full) => break,
                Err(SendError::Lost(error)) => return Err(error),
            }
        }
        if queue.is_empty() && queue.capacity() > PLACES_KEPT {
            queue.shrink_to(PLACES_KEPT);
        }
        Ok(any_sent)
    }

    /// Forgets a link.
    pub fn forget(&mut self, link: LinkId) {
        self.latest = None;
        if let Some(place) = self.places.remove(&link) {
            self.queues[place] = Queue::new();
            self.vacant.push(place);
        }
    }
}

/// Keeps the buffer of a payload for another.
fn keep(payload: Payload, spare: &mut Vec<Vec<u8>>) {
    if let Payload::Long(bytes) = payload
        && spare.len() < PLACES_KEPT
        && bytes.capacity() <= KEPT_LEN_MAX
    {
        spare.push(bytes);
    }
}

/// What is said instead of an answer that does not fit the link: nobody is left waiting for it.
fn too_long(tag: u32, len: usize, max: usize) -> (FrameHead, Payload) {
    let detail =
        format!("the answer has {len} bytes and this link carries {max}; raise link.ring on both sides");
    let answer = ControlAnswer::failed(Failure::TooLong, &detail);
    let mut payload = Vec::new();
    answer.encode(&mut payload);
    (FrameHead::new(answer.kind()).with_tag(tag), Payload::Long(payload))
}

#[cfg(test)]
mod tests {
    use outboard_link::loopback::{FaultPlan, Network};
    use outboard_link::{Disposition, Exports, Identity};
    use outboard_wire::{Kind, Role, Room, Time};

    use super::*;

    #[test]
    fn payloads_of_every_length_are_kept_as_they_are() {
        for len in 0..2 * SHORT_MAX {
            let bytes: Vec<u8> = (1..=len as u8).collect();
            let payload = Payload::copy(&bytes, &mut vec![vec![9; 99]]);
            assert_eq!(payload.as_bytes(), bytes);
            assert_eq!(matches!(payload, Payload::Short { .. }), len <= SHORT_MAX, "{len} bytes");
        }
    }

    #[test]
    fn a_place_that_was_forgotten_is_anothers() {
        let (mut outbox, head) = (Outbox::default(), FrameHead::new(Kind::new(Room::Control, 35)));
        for _ in 0..WAITING_MAX {
            outbox.push_copy(LinkId(1), head, &[1; 100]);
        }
        outbox.push_copy(LinkId(2), head, &[]);
        assert!(!outbox.has_room(LinkId(1)) && outbox.has_room(LinkId(2)) && outbox.has_room(LinkId(3)));
        outbox.forget(LinkId(1));
        outbox.push_static(LinkId(3), head, &[]);
        assert!(outbox.has_room(LinkId(1)) && outbox.has_room(LinkId(3)));
        assert_eq!((outbox.queues.len(), outbox.queue(LinkId(3)).len()), (2, 1));
    }

    #[test]
    fn an_answer_that_does_not_fit_is_answered_with_a_no() {
        let identity = |name| Identity::new(Role::Tool, name);
        let network = Network::new(1, FaultPlan::none());
        let (mut ours, mut theirs) =
            network.connect(identity("a"), Exports::new(), identity("b"), Exports::new()).unwrap();
        let (id, mut outbox) = (LinkId(1), Outbox::default());
        let long = vec![0; ours.capabilities().max_payload + 1];
        outbox.push(id, FrameHead::new(Kind::new(Room::Control, 35)).with_tag(7), long);
        outbox.answer(id, 8, &ControlAnswer::Freed);
        assert!(outbox.send(id, &mut ours).unwrap());
        ours.flush().unwrap();
        let mut heard = Vec::new();
        for step in 0..10 {
            let now = Time::from_nanos(step * 1_000_000);
            ours.progress(now).unwrap();
            theirs.progress(now).unwrap();
            let hear = |frame: outboard_link::Frame<'_>| {
                let answer = ControlAnswer::decode(frame.head.kind, &frame.payload.to_vec()).unwrap();
                heard.push((frame.head.tag, answer));
                Disposition::Taken
            };
            theirs.receive(10, hear).unwrap();
        }
        assert!(
            matches!(heard[0], (7, ControlAnswer::Failed { failure: Failure::TooLong, .. })),
            "{heard:?}"
        );
        assert_eq!(heard[1..], [(8, ControlAnswer::Freed)]);
    }
}
