//! The messages that were sent, those that were handled, and the end that all have agreed on.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::Recorder;

/// The shortest message, in bytes.
pub(super) const LETTER: usize = 24;

/// A message. Every byte of it follows from this, so that the rank that handles it knows whether it is whole and in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Letter {
    pub(super) space: u8,
    /// The phase of the program that it belongs to; a reply is of the phase of what it replies to.
    pub(super) phase: u32,
    pub(super) source: u32,
    pub(super) destination: u32,
    /// Which of the source's it is.
    pub(super) number: u32,
}

impl Letter {
    /// As bytes, so many of them.
    pub(super) fn encode(&self, len: usize) -> Vec<u8> {
        let words = [
            u64::from(self.space) | u64::from(self.phase) << 32,
            u64::from(self.source) | u64::from(self.destination) << 32,
            u64::from(self.number) | (len as u64) << 32,
        ];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend((LETTER..len).map(|at| (at as u32 ^ self.number) as u8));
        bytes
    }

    /// From bytes, if they are one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.get(..LETTER)?.as_chunks::<8>();
        let [what, who, which] = *words else { return None };
        let [what, who, which] = [what, who, which].map(u64::from_le_bytes);
        let letter = Self {
            space: what as u8,
            phase: (what >> 32) as u32,
            source: who as u32,
            destination: (who >> 32) as u32,
            number: which as u32,
        };
        (letter.encode(bytes.len()) == bytes).then_some(letter)
    }
}

#[derive(Default)]
struct Facts {
    under_way: BTreeSet<Letter>,
    handled: BTreeSet<Letter>,
    /// How many ranks have come to each round, of a space or of the barrier.
    come: BTreeMap<(Option<u8>, u32), u32>,
}

/// Knows what is under way between all ranks. Clones are the same books.
#[derive(Clone)]
pub(super) struct Books {
    recorder: Recorder,
    ranks: u32,
    facts: Rc<RefCell<Facts>>,
}

impl Books {
    pub(super) fn new(recorder: Recorder, ranks: u32) -> Self {
        Self { recorder, ranks, facts: Rc::default() }
    }

    /// A node has done something that it should not have.
    pub(super) fn fail(&self, promise: String) {
        self.recorder.fail(promise);
    }

    pub(super) fn sent(&self, letter: Letter) {
        self.facts.borrow_mut().under_way.insert(letter);
    }

    /// A rank handles these bytes as a message of a space. Returns what they are.
    pub(super) fn handled(&self, (source, rank): (u32, u32), space: u8, bytes: &[u8]) -> Option<Letter> {
        let Some(letter) = Letter::decode(bytes) else {
            self.fail(format!("messages arrive as they were sent, but {bytes:02x?} was not"));
            return None;
        };
        let is_in_place = (letter.source, letter.destination, letter.space) == (source, rank, space);
        self.recorder.expect(is_in_place, || {
            format!("messages go to their rank and space, but {letter:?} came to rank {rank}, space {space}")
        });
        let facts = &mut *self.facts.borrow_mut();
        if !facts.under_way.remove(&letter) {
            self.fail(match facts.handled.contains(&letter) {
                true => format!("every message is handled once, but {letter:?} came again"),
                false => format!("what is handled was sent, but {letter:?} was not"),
            });
        }
        facts.handled.insert(letter);
        Some(letter)
    }

    /// A rank comes to a round: it sends no more of that phase but replies.
    pub(super) fn comes(&self, space: Option<u8>, phase: u32) {
        *self.facts.borrow_mut().come.entry((space, phase)).or_default() += 1;
    }

    /// A rank was told that a round is over.
    pub(super) fn is_over(&self, space: Option<u8>, phase: u32) {
        let facts = self.facts.borrow();
        let come = facts.come.get(&(space, phase)).copied().unwrap_or(0);
        self.recorder.expect(come == self.ranks, || {
            format!("a round is over when all have come, but {come} of {} have to {space:?}", self.ranks)
        });
        let Some(space) = space else { return };
        let first = Letter { space, phase: 0, source: 0, destination: 0, number: 0 };
        let left =
            facts.under_way.range(first..).next().filter(|left| (left.space, left.phase) <= (space, phase));
        self.recorder.expect(left.is_none(), || {
            format!("a space is quiet when all was handled, but in phase {phase} {left:?} was not")
        });
    }

    /// In the end everything was handled. Returns how much that was.
    pub(super) fn close(&self) -> u64 {
        let facts = self.facts.borrow();
        let left = facts.under_way.first();
        self.recorder.expect(left.is_none(), || format!("everything arrives, but {left:?} has not"));
        facts.handled.len() as u64
    }
}
