//! Answers that wait for their link to have room.

use std::collections::{HashMap, VecDeque};

use outboard_link::{Link, LinkError, SendError};
use outboard_wire::FrameHead;
use outboard_wire::control::{ControlAnswer, Failure};

use crate::LinkId;

/// How many answers may wait for one link. A client that asks and never listens is no longer heard then.
const WAITING_MAX: usize = 1024;

/// Answers that wait for their links to have room.
#[derive(Default)]
pub struct Outbox {
    waiting: HashMap<LinkId, VecDeque<(FrameHead, Vec<u8>)>>,
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
        self.waiting.entry(link).or_default().push_back((head, payload));
    }

    /// Sends what fits. Returns whether anything was sent.
    pub fn send<L: Link>(&mut self, id: LinkId, link: &mut L) -> Result<bool, LinkError> {
        let Some(queue) = self.waiting.get_mut(&id) else { return Ok(false) };
        let mut sent = false;
        while let Some((head, payload)) = queue.front() {
            match link.send(*head, payload) {
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
        if queue.is_empty() {
            self.waiting.remove(&id);
        }
        Ok(sent)
    }

    /// Forgets a link.
    pub fn forget(&mut self, link: LinkId) {
        self.waiting.remove(&link);
    }
}

/// What is said instead of an answer that does not fit the link: nobody is left waiting for it.
fn too_long(tag: u32, len: usize, max: usize) -> (FrameHead, Vec<u8>) {
    let detail =
        format!("the answer has {len} bytes and this link carries {max}; raise link.ring on both sides");
    let answer = ControlAnswer::failed(Failure::TooLong, &detail);
    let mut payload = Vec::new();
    answer.encode(&mut payload);
    (FrameHead::new(answer.kind()).with_tag(tag), payload)
}

#[cfg(test)]
mod tests {
    use outboard_link::loopback::{FaultPlan, Network};
    use outboard_link::{Disposition, Exports, Identity};
    use outboard_wire::{Kind, Role, Room, Time};

    use super::*;

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
