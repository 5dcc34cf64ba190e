//! How many messages may be on their way, so that none arrives where there is no place for it.
//!
//! Each side has a place for every message that the other may send, and tells it when places are free again: with the
//! messages that it sends anyway, or with an empty one when half of the places are owed. Empty messages need places
//! too and are not counted: each stands for half of the places, so no more than two can be on their way. Others say where
//! long messages are written to, of which each waits for an answer. Places are kept for all of these.

use outboard_wire::DecodeError;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::Violation;

/// The places that are kept for messages without bytes of the stream.
pub(super) const KEPT: usize = 5;

/// The kinds of messages, by what they bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Bytes of the stream, or none.
    Bytes = 0,
    /// Where long messages are written to from now on.
    Landing = 1,
    /// That they must not be any more.
    Withdrawal = 2,
    /// That they are not any more, and what was written has a lower number.
    Release = 3,
}

/// The head before the bytes of every message.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    /// Counts all messages in one direction.
    sequence: U32,
    /// How many places are free again.
    credits: U16,
    content: U16,
}

impl Header {
    pub(super) const LEN: usize = size_of::<Self>();

    pub(super) fn content(&self) -> Result<Content, Violation> {
        match self.content.get() {
            0 => Ok(Content::Bytes),
            1 => Ok(Content::Landing),
            2 => Ok(Content::Withdrawal),
            3 => Ok(Content::Release),
            other => Err(DecodeError::BadValue { what: "content of a message", value: other.into() }.into()),
        }
    }
}

/// The credits that this side has, and those that it owes.
#[derive(Debug)]
pub(super) struct Credits {
    /// How many messages with bytes may be sent.
    left: usize,
    /// How many of ours the peer can hold at once.
    theirs: usize,
    /// How many places are free again and not told of.
    owed: usize,
    /// How many of theirs we can hold at once.
    ours: usize,
    /// How many messages were sent in all.
    sent: u64,
    /// How many of those with bytes the peer has dealt with, as far as it has told.
    dealt_with: u64,
}

impl Credits {
    /// Both sides have this many places.
    pub(super) fn new(our_slots: usize, their_slots: usize) -> Self {
        let (ours, theirs) = (our_slots - KEPT, their_slots - KEPT);
        Self { left: theirs, theirs, owed: 0, ours, sent: 0, dealt_with: 0 }
    }

    /// Whether a message with bytes may be sent.
    #[inline]
    pub(super) fn has(&self) -> bool {
        self.left > 0
    }

    /// Whether so much is owed that it must be told.
    #[inline]
    pub(super) fn is_indebted(&self) -> bool {
        self.owed * 2 >= self.ours
    }

    /// The header of the next message.
    #[inline]
    pub(super) fn next(&mut self, has_bytes: bool) -> Header {
        if has_bytes {
            self.left -= 1;
        }
        self.header(Content::Bytes)
    }

    /// The header of a message that brings something else than bytes of the stream.
    pub(super) fn header(&mut self, content: Content) -> Header {
        let (sequence, credits) = ((self.sent as u32).into(), (self.owed as u16).into());
        self.owed = 0;
        self.sent += 1;
        Header { sequence, credits, content: (content as u16).into() }
    }

    /// How many messages with bytes may be on their way to us at once.
    pub(super) fn ours(&self) -> usize {
        self.ours
    }

    /// Credits that go to the peer.
    pub(super) fn theirs(&self) -> usize {
        self.theirs
    }

    /// How many messages were sent in all.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// How many messages with bytes were sent in all.
    pub(super) fn sent_with_bytes(&self) -> u64 {
        self.dealt_with + (self.theirs - self.left) as u64
    }

    /// How many of those the peer has dealt with, as far as it has told.
    pub(super) fn dealt_with(&self) -> u64 {
        self.dealt_with
    }

    /// A message with bytes was dealt with, and its place is free.
    #[inline]
    pub(super) fn freed(&mut self) {
        self.owed += 1;
    }

    /// Takes what a header brings, and returns the number of its message.
    #[inline]
    pub(super) fn take(&mut self, header: &Header) -> Result<u32, Violation> {
        let credits = usize::from(header.credits.get());
        if credits > self.theirs - self.left {
            return Err(DecodeError::BadValue { what: "credits", value: credits as u64 }.into());
        }
        self.left += credits;
        self.dealt_with += credits as u64;
        Ok(header.sequence.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_back_than_was_lent() {
        let (mut ada, mut ben) = (Credits::new(11, 13), Credits::new(13, 11));
        let mut last = None;
        for _ in 0..8 {
            assert!(ada.has());
            last = Some(ada.next(true));
        }
        assert!(!ada.has() && ben.take(&last.unwrap()).unwrap() == 7);
        for _ in 0..3 {
            ben.freed();
        }
        assert!(!ben.is_indebted());
        ben.freed();
        assert!(ben.is_indebted());
        let header = ben.next(false);
        assert_eq!(ada.take(&header).unwrap(), 0);
        assert!(!ben.is_indebted() && ada.left == 4);
        assert_eq!((ada.sent_with_bytes(), ada.dealt_with()), (8, 4));
        // Four again are more than it ever sent.
        ada.take(&header).unwrap();
        assert!(ada.take(&header).is_err());
    }

    #[test]
    fn empty_messages_find_a_place() {
        for slots in [8, 9, 33, 1024] {
            let mut credits = Credits::new(slots, slots);
            let (mut places, mut empty) = (slots - KEPT, 0);
            // Everything that the other side could have sent is dealt with, and it hears of none of it.
            while places > 0 {
                credits.freed();
                places -= 1;
                if credits.is_indebted() {
                    credits.next(false);
                    empty += 1;
                }
            }
            assert!(empty <= KEPT, "{empty} of {slots}");
        }
    }
}
