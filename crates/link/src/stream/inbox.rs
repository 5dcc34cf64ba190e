//! The bytes that have arrived and are not dealt with yet.

use outboard_wire::access::FIXED_LEN_MAX;
use outboard_wire::{FrameHead, FrameHeader};
use rustix::io::Errno;

use super::fifo::Fifo;
use crate::Violation;
use crate::memory::Window;
use crate::ring::record_len;

/// The queue of arrived bytes, cut into records.
pub(super) struct Inbox {
    fifo: Fifo,
    /// The longest payload that was agreed for frames; the link's own may have a fixed part before it.
    max_payload: usize,
    /// Whether what arrived last took all the room there was.
    was_filled: bool,
    /// How many bytes have been dealt with.
    done: u64,
}

impl Inbox {
    pub(super) fn new(capacity: usize, max_payload: usize) -> Result<Self, Errno> {
        assert!(record_len(max_payload + FIXED_LEN_MAX) <= capacity, "a record must fit the queue");
        Ok(Self { fifo: Fifo::new(capacity)?, max_payload, was_filled: false, done: 0 })
    }

    /// Makes room for what arrives, as much again as there was if that did not do. Returns whether there is any.
    #[inline]
    pub(super) fn make_room(&mut self) -> bool {
        if std::mem::take(&mut self.was_filled) {
            self.fifo.double();
        }
        self.fifo.has_room(1)
    }

    /// Whether so many bytes can be taken over at once.
    pub(super) fn has_room(&mut self, len: usize) -> bool {
        self.fifo.has_room(len)
    }

    /// How many bytes wait here, and how many have been dealt with.
    pub(super) fn backlog(&self) -> (u64, u64) {
        (self.fifo.len() as u64, self.done)
    }

    /// Where arriving bytes go; empty if there is no room.
    #[inline]
    pub(super) fn room_mut(&mut self) -> &mut [u8] {
        self.fifo.room_mut()
    }

    #[inline]
    pub(super) fn arrived(&mut self, len: usize) {
        self.was_filled = len == self.fifo.room();
        self.fifo.append(len);
    }

    /// Everything that is here.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        self.fifo.bytes()
    }

    /// Takes over what has arrived elsewhere. There must be room.
    pub(super) fn push(&mut self, bytes: Window<'_>) {
        self.fifo.push(bytes);
    }

    /// The bytes here are dealt with, although they are no whole record.
    pub(super) fn clear(&mut self) {
        self.fifo.consume(self.fifo.len());
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.fifo.is_empty()
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.fifo.room() == 0
    }

    /// The first record, once it is there as a whole. A header that cannot be right is reported at once.
    #[inline]
    pub(super) fn peek(&self) -> Result<Option<(FrameHead, &[u8])>, Violation> {
        let bytes = self.fifo.bytes();
        if bytes.len() < FrameHeader::LEN {
            return Ok(None);
        }
        let header = FrameHeader::decode(&bytes[..FrameHeader::LEN])?;
        let (head, len) = (header.head(), header.payload_len() as usize);
        let longest =
            if head.kind.is_for_link() { self.max_payload + FIXED_LEN_MAX } else { self.max_payload };
        if len > longest {
            return Err(Violation::Oversize { len: len as u64, available: longest as u64 });
        }
        if bytes.len() < record_len(len) {
            return Ok(None);
        }
        Ok(Some((head, &bytes[FrameHeader::LEN..FrameHeader::LEN + len])))
    }

    /// Whether the first record, whose payload has `payload` bytes, is all that is here.
    #[inline]
    pub(super) fn holds_only(&self, payload: usize) -> bool {
        self.fifo.len() == record_len(payload)
    }

    /// The first record, whose payload has `payload` bytes, is dealt with.
    #[inline]
    pub(super) fn advance(&mut self, payload: usize) {
        self.done += record_len(payload) as u64;
        self.fifo.consume(record_len(payload));
    }
}
