//! Messages that wait for a bundle.

use std::collections::VecDeque;

use outboard_wire::routing::{Form, Fragment, MessageHead};

use super::messages::Messenger;
use super::send::append;

/// A message that waits for a bundle.
struct Waiting {
    rank: u32,
    bytes: Vec<u8>,
    /// How much of a long message has been sent, and its number.
    sent: usize,
    number: u64,
}

/// The messages of one space that wait for a bundle. Every space has its own: what one waits for may depend on what
/// another one carries.
#[derive(Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Backlog {
    pub(super) fn push(&mut self, rank: u32, bytes: Vec<u8>, number: u64) {
        self.bytes += bytes.len();
        self.waiting.push_back(Waiting { rank, bytes, sent: 0, number });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many bytes wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Messenger {
    /// Sends what waits for bundles, as far as there are any. Returns whether anything was sent.
    pub(super) fn drain_backlogs(&mut self) -> bool {
        let mut moved = self.drain_signals();
        for set in 0..self.backlogs.len() {
            while let Some(mut waiting) = self.backlogs[set].waiting.pop_front() {
                let is_long = MessageHead::stride(waiting.bytes.len()) > self.bundle_bytes;
                let is_done = match is_long {
                    true => self.send_parts(set, &mut waiting),
                    false => self.send_waiting(set, &waiting),
                };
                if !is_done {
                    self.backlogs[set].waiting.push_front(waiting);
                    break;
                }
                self.backlogs[set].bytes -= waiting.bytes.len();
                moved = true;
            }
        }
        moved
    }

    fn send_waiting(&mut self, set: usize, waiting: &Waiting) -> bool {
        let Waiting { rank, ref bytes, .. } = *waiting;
        append(self.lane(set, rank), rank, bytes)
            || (self.open(set, rank) && append(self.lane(set, rank), rank, bytes))
    }

    /// Sends parts of a long message. Returns whether it is sent.
    fn send_parts(&mut self, set: usize, waiting: &mut Waiting) -> bool {
        let Waiting { rank, ref bytes, ref mut sent, number } = *waiting;
        while *sent < bytes.len() {
            if !self.open(set, rank) {
                return false;
            }
            let len = (bytes.len() - *sent).min(self.bundle_bytes - Fragment::LEN);
            let fragment = Fragment { message: number, total: bytes.len() as u64, offset: *sent as u64 };
            let lane = self.lane(set, rank);
            let sealed = lane.fill(&[&fragment.encode(), &bytes[*sent..*sent + len]]);
            self.dispatch(set, rank, sealed, Form::Fragment);
            *sent += len;
        }
        true
    }
}
