//! Answers that wait for their link to have room.

use std::collections::{HashMap, VecDeque};

use outboard_link::{Link, LinkError, SendError};
use outboard_wire::FrameHead;
use outboard_wire::control::ControlAnswer;

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
                // A list that is too long for this link was cut to fit when it was made; nothing else is long.
                Ok(()) | Err(SendError::TooLong { .. }) => {
                    queue.pop_front();
                    sent = true;
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
