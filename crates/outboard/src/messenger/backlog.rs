//! Messages that wait for a bundle.

use std::collections::VecDeque;

use outboard_wire::Rank;
use outboard_wire::routing::{Form, Fragment, MessageHead};

use super::messages::Messenger;
use super::send::append;

/// How much of what was taken is kept at most, or as much as waits.
const FORGET: usize = 1 << 17;

/// A message that is longer than a bundle, and of which a part may have been sent.
struct Long {
    rank: u32,
    bytes: Vec<u8>,
    sent: usize,
    number: u64,
}

/// The messages of one space that wait for a bundle. Every space has its own: what one waits for may depend on what
/// another one carries.
#[derive(Default)]
pub(super) struct Backlog {
    long: VecDeque<Long>,
    /// Messages that fit into a bundle, one behind the other as in one, from here on: a rank that answers every message of a
    /// bundle may leave thousands.
    short: Vec<u8>,
    taken: usize,
    bytes: usize,
}

impl Backlog {
    /// Keeps a message that is longer than a bundle.
    pub(super) fn push_long(&mut self, rank: u32, bytes: Vec<u8>, number: u64) {
        self.bytes += bytes.len();
        self.long.push_back(Long { rank, bytes, sent: 0, number });
    }

    /// Keeps a message that fits into a bundle.
    pub(super) fn push_short(&mut self, rank: u32, bytes: &[u8]) {
        self.bytes += bytes.len();
        let head = MessageHead { size: bytes.len() as u32, rank: Rank(rank) };
        self.short.extend_from_slice(&head.word().to_le_bytes());
        self.short.extend_from_slice(bytes);
    }

    fn next_short(&self) -> Option<(u32, &[u8])> {
        let (head, rest) = self.short[self.taken..].split_first_chunk()?;
        let MessageHead { size, rank } = MessageHead::from_word(u64::from_le_bytes(*head));
        Some((rank.0, rest.get(..size as usize)?))
    }

    fn drop_short(&mut self, len: usize) {
        self.bytes -= len;
        self.taken += MessageHead::LEN + len;
        // Messages that were taken are forgotten now and then, also if there are always some left.
        if self.taken == self.short.len() || self.taken > self.short.len().max(FORGET) / 2 {
            self.short.drain(..self.taken);
            self.taken = 0;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.long.is_empty() && self.short.is_empty()
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
            if self.backlogs[set].is_empty() {
                continue;
            }
            let mut backlog = std::mem::take(&mut self.backlogs[set]);
            while let Some((rank, bytes)) = backlog.next_short() {
                if !self.send_short(set, rank, bytes) {
                    break;
                }
                let len = bytes.len();
                backlog.drop_short(len);
                moved = true;
            }
            while let Some(mut long) = backlog.long.pop_front() {
                if !self.send_parts(set, &mut long) {
                    backlog.long.push_front(long);
                    break;
                }
                backlog.bytes -= long.bytes.len();
                moved = true;
            }
            self.backlogs[set] = backlog;
        }
        moved
    }

    fn send_short(&mut self, set: usize, rank: u32, bytes: &[u8]) -> bool {
        append(self.lane(set, rank), rank, bytes)
            || (self.open(set, rank) && append(self.lane(set, rank), rank, bytes))
    }

    /// Sends parts of a long message. Returns whether it is sent.
    fn send_parts(&mut self, set: usize, long: &mut Long) -> bool {
        let Long { rank, ref bytes, ref mut sent, number } = *long;
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
