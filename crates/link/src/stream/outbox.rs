//! The bytes that are to be sent and have not left yet.

use outboard_wire::FixedPart;
use outboard_wire::access::{AccessReply, AccessRequest, FIXED_LEN_MAX};
use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, FrameHeader};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::config::{GOODBYE_ROOM, HEADROOM};
use super::fifo::Fifo;
use super::straight::HEAD_LEN;
use crate::memory::{Window, WindowMut};
use crate::ring::record_len;

/// The queue of outgoing records.
pub(super) struct Outbox {
    fifo: Fifo,
    /// How many bytes from the front may leave; the rest is a batch in the making.
    released: usize,
    /// The frame that was reserved and not committed. Whatever moves the queue's end abandons it.
    reserved: Option<(FrameHead, usize)>,
    /// Set once nothing can be sent any more: what is appended is forgotten.
    broken: bool,
    /// How many bytes have left.
    left: u64,
    payload: Vec<u8>,
}

impl Outbox {
    pub(super) fn new(capacity: usize) -> Result<Self, Errno> {
        let payload = Vec::with_capacity(GOODBYE_ROOM);
        Ok(Self { fifo: Fifo::new(capacity)?, released: 0, reserved: None, broken: false, left: 0, payload })
    }

    /// Whether a record with `payload` bytes fits without touching the headroom.
    #[inline]
    pub(super) fn has_room(&mut self, payload: usize) -> bool {
        self.fifo.has_room(record_len(payload) + HEADROOM)
    }

    /// Where the payload of the next record goes. There must be room.
    #[inline]
    pub(super) fn reserve(&mut self, head: FrameHead, len: usize) -> WindowMut<'_> {
        self.reserved = Some((head, len));
        self.fifo.room_window(FrameHeader::LEN, len)
    }

    /// Appends the reserved record with its first `len` bytes. Returns the bytes it takes.
    ///
    /// # Panics
    /// If nothing is reserved, or less.
    #[inline]
    pub(super) fn commit(&mut self, len: usize) -> usize {
        let reserved = self.reserved.take().filter(|(_, most)| len <= *most);
        // A programmer's error, as the trait says.
        let (head, _) = reserved.expect("commit follows a reserve of at least this length");
        self.append(head, len)
    }

    /// Puts the header before a payload that is in place.
    #[inline]
    fn append(&mut self, head: FrameHead, len: usize) -> usize {
        // No payload reaches 4 GiB: queues are at most 1 GiB.
        let header = FrameHeader::new(head, len as u32);
        self.fifo.room_mut()[..FrameHeader::LEN].copy_from_slice(header.as_bytes());
        self.reserved = None;
        if !self.broken {
            self.fifo.append(record_len(len));
        }
        record_len(len)
    }

    /// Appends a request and lets it go. There must be room for it and its data.
    pub(super) fn request(&mut self, tag: u32, request: &AccessRequest, data: Window<'_>) {
        let fixed = request.encode();
        let len = self.fill(&fixed, data);
        self.append(FrameHead::new(request.kind()).with_tag(tag), len);
        self.release();
    }

    /// Appends a reply with data and lets it go. There must be room.
    pub(super) fn reply(&mut self, tag: u32, reply: &AccessReply, data: Window<'_>) {
        let len = self.fill(&reply.encode(), data);
        self.append(FrameHead::new(reply.kind()).with_tag(tag), len);
        self.release();
    }

    /// The bytes before the data of a reply.
    pub(super) fn head_of_reply(tag: u32, reply: &AccessReply, data_len: usize) -> [u8; HEAD_LEN] {
        let head = FrameHead::new(reply.kind()).with_tag(tag);
        // No payload reaches 4 GiB: queues are at most 1 GiB.
        let header = FrameHeader::new(head, (AccessReply::FIXED_LEN + data_len) as u32);
        let mut bytes = [0; HEAD_LEN];
        let (start, fixed) = bytes.split_at_mut(FrameHeader::LEN);
        start.copy_from_slice(header.as_bytes());
        fixed.copy_from_slice(reply.encode().as_bytes());
        bytes
    }

    /// Appends what is left of a record of which `sent` bytes have left past the queue, and lets it go. There must be
    /// nothing else here.
    pub(super) fn rest_of_record(&mut self, head: &[u8], data: Window<'_>, sent: usize) {
        let (head, sent) = (&head[sent.min(head.len())..], sent.saturating_sub(head.len()));
        if !self.broken {
            self.fifo.push(Window::from(head));
            self.fifo.push(data.part(sent, data.len() - sent));
        }
        self.reserved = None;
        self.release();
    }

    /// Puts the fixed part and the data in the place of the next payload.
    fn fill(&mut self, fixed: &FixedPart<FIXED_LEN_MAX>, data: Window<'_>) -> usize {
        let fixed = fixed.as_bytes();
        let len = fixed.len() + data.len();
        let room = &mut self.fifo.room_mut()[FrameHeader::LEN..FrameHeader::LEN + len];
        let (start, rest) = room.split_at_mut(fixed.len());
        start.copy_from_slice(fixed);
        data.read(0, rest);
        len
    }

    /// Appends a reply without data, from the headroom if need be. Returns false if even that is used up, which a
    /// peer that keeps to the limit of operations never brings about.
    #[must_use]
    pub(super) fn short_reply(&mut self, tag: u32, reply: &AccessReply) -> bool {
        if !self.fifo.has_room(record_len(AccessReply::FIXED_LEN) + GOODBYE_ROOM) {
            return false;
        }
        self.reply(tag, reply, Window::from(&[][..]));
        true
    }

    /// Appends a message about the link, if there is any room at all, and lets everything go.
    pub(super) fn liveness(&mut self, message: &Liveness) {
        self.payload.clear();
        message.encode(&mut self.payload);
        let len = self.payload.len();
        if self.fifo.has_room(record_len(len)) {
            self.fifo.room_mut()[FrameHeader::LEN..FrameHeader::LEN + len].copy_from_slice(&self.payload);
            self.append(FrameHead::new(message.kind()), len);
        }
        self.release();
    }

    /// Everything appended so far may leave.
    #[inline]
    pub(super) fn release(&mut self) {
        self.released = self.fifo.len();
    }

    /// The bytes that may leave now.
    #[inline]
    pub(super) fn released(&self) -> &[u8] {
        &self.fifo.bytes()[..self.released]
    }

    /// How many bytes wait here, and how many have left.
    pub(super) fn backlog(&self) -> (u64, u64) {
        (self.fifo.len() as u64, self.left)
    }

    /// Whether nothing waits to leave and no batch is in the making.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.fifo.is_empty() && !self.broken
    }

    #[inline]
    pub(super) fn has_released(&self) -> bool {
        self.released > 0
    }

    #[inline]
    pub(super) fn sent(&mut self, len: usize) {
        self.left += len as u64;
        self.fifo.consume(len);
        self.released -= len;
        if self.fifo.is_empty() {
            // The next record goes elsewhere now.
            self.reserved = None;
        }
    }

    /// Nothing can be sent any more.
    pub(super) fn break_off(&mut self) {
        self.fifo.consume(self.fifo.len());
        self.released = 0;
        self.broken = true;
    }
}
