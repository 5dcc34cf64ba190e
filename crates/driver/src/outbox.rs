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

/// What a frame carries.
enum Payload {
    Short { bytes: [u8; SHORT_MAX], len: u8 },
    Long(Vec<u8>),
    Lasting(&'static [u8]),
}

impl Payload {
    fn copy(bytes: &[u8]) -> Self {
        let mut short = [0; SHORT_MAX];
        match short.get_mut(..bytes.len()) {
            Some(start) => {
                start.copy_from_slice(bytes);
                Self::Short { bytes: short, len: bytes.len() as u8 }
            }
            None => Self::Long(bytes.to_vec()),
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

/// Answers that wait for their links to have room.
#[derive(Default)]
pub struct Outbox {
    waiting: HashMap<LinkId, VecDeque<(FrameHead, Payload)>>,
}

impl Outbox {
    /// Whether another question from this link can be taken.
    pub fn has_room(&self, link: LinkId) -> bool {
        self.waiting.get(&link).is_none_or(|queue| queue.len() < WAITING_MAX)
    }

    /// Queues an answer to the question with this tag.
    pub fn answer(&mut self, link: LinkId, tag: u32, answer: &ControlAnswer) {
        let mut payload = Vec::new();
        answer.encode(&mut payload);
        self.push(link, FrameHead::new(answer.kind()).with_tag(tag), payload);
    }

    /// Queues a frame.
    pub fn push(&mut self, link: LinkId, head: FrameHead, payload: Vec<u8>) {
        self.waiting.entry(link).or_default().push_back((head, Payload::Long(payload)));
    }

    /// Queues a frame with a copy of `payload`; a short one needs no allocation.
    pub fn push_copy(&mut self, link: LinkId, head: FrameHead, payload: &[u8]) {
        self.waiting.entry(link).or_default().push_back((head, Payload::copy(payload)));
    }

    /// Queues a frame whose payload is always there, whatever its length.
    pub fn push_static(&mut self, link: LinkId, head: FrameHead, payload: &'static [u8]) {
        self.waiting.entry(link).or_default().push_back((head, Payload::Lasting(payload)));
    }

    /// Sends what fits. Returns whether anything was sent.
    pub fn send<L: Link>(&mut self, id: LinkId, link: &mut L) -> Result<bool, LinkError> {
        let Some(queue) = self.waiting.get_mut(&id) else { return Ok(false) };
        let mut sent = false;
        while let Some((head, payload)) = queue.front() {
            match link.send(*head, payload.as_bytes()) {
                Ok(()) => {
                    queue.pop_front();
                    sent = true;
                }
                Err(SendError::TooLong { len, max }) => {
                    let tag = head.tag;
                    queue.pop_front();
                    queue.push_front(too_long(tag, len, max));
                }
                Err(SendError::Full) => break,
                Err(SendError::Lost(error)) => return Err(error),
            }
        }
        if queue.is_empty() && queue.capacity() > PLACES_KEPT {
            queue.shrink_to(PLACES_KEPT);
        }
        Ok(sent)
    }

    /// Forgets a link.
    pub fn forget(&mut self, link: LinkId) {
        self.waiting.remove(&link);
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
            let payload = Payload::copy(&bytes);
            assert_eq!(payload.as_bytes(), bytes);
            assert_eq!(matches!(payload, Payload::Short { .. }), len <= SHORT_MAX, "{len} bytes");
        }
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
