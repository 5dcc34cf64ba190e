//! The bytes on the wire, in memory that is set aside once.

use outboard_wire::{FrameHead, FrameHeader, Time};
use rustix::io::Errno;

use crate::memory::{Mirror, Window, WindowMut};

/// Bytes that are taken out in the order in which they were put in.
pub(super) struct ByteQueue {
    bytes: Mirror,
    head: u64,
    tail: u64,
}

impl ByteQueue {
    /// Room for at least `capacity` bytes.
    pub(super) fn new(capacity: usize) -> Result<Self, Errno> {
        let capacity = capacity.max(rustix::param::page_size());
        let capacity = capacity.checked_next_power_of_two().ok_or(Errno::NOMEM)?;
        Ok(Self { bytes: Mirror::private(capacity)?, head: 0, tail: 0 })
    }

    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    fn has_room(&self, len: usize) -> bool {
        len <= self.capacity() - (self.tail - self.head) as usize
    }

    /// Appends `data`; returns where it is, or `None` if there is no room.
    pub(super) fn push(&mut self, data: Window<'_>) -> Option<u64> {
        if !self.has_room(data.len()) {
            return None;
        }
        let at = self.tail;
        self.window_mut(at, data.len()).write_window(0, data);
        self.tail += data.len() as u64;
        Some(at)
    }

    /// Takes out the first `len` bytes.
    pub(super) fn pop(&mut self, len: usize) {
        self.head += len as u64;
        debug_assert!(self.head <= self.tail, "more was taken out than put in");
    }

    pub(super) fn window(&self, at: u64, len: usize) -> Window<'_> {
        assert!(len <= self.capacity(), "{len} bytes are over the queue's capacity");
        // SAFETY: `capacity` bytes follow every position; mapped as long as `self`, and no references are made.
        unsafe { Window::new(self.bytes.at(at), len) }
    }

    fn window_mut(&mut self, at: u64, len: usize) -> WindowMut<'_> {
        assert!(len <= self.capacity(), "{len} bytes are over the queue's capacity");
        // SAFETY: as above.
        unsafe { WindowMut::new(self.bytes.at(at), len) }
    }
}

/// Before each payload: the header's two words and when the frame leaves the wire.
const PREFIX: usize = FrameHeader::LEN + 8;

/// The bytes of the queue that a frame takes.
const fn entry_len(payload: usize) -> usize {
    (PREFIX + payload).next_multiple_of(8)
}

/// The bytes for which a frame occupies the wire.
pub(super) const fn frame_bytes(payload: usize) -> u64 {
    (FrameHeader::LEN + payload) as u64
}

/// Frames from their reservation until the link beneath has taken them.
pub(super) struct FrameQueue {
    bytes: ByteQueue,
    /// Up to here the frames are on the wire.
    stamped: u64,
    /// Up to here the frames are flushed.
    flushed: u64,
    reserved: Option<(FrameHead, usize)>,
    /// Frames flushed and not yet released.
    queued: usize,
    /// Frames committed and not yet flushed.
    unflushed: usize,
}

/// The frame that leaves the wire next.
pub(super) struct Front<'a> {
    pub(super) head: FrameHead,
    pub(super) payload: Window<'a>,
}

impl FrameQueue {
    /// Room for `capacity` bytes, and for one frame of `max_payload` at least.
    pub(super) fn new(capacity: usize, max_payload: usize) -> Result<Self, Errno> {
        let bytes = ByteQueue::new(capacity.max(entry_len(max_payload)))?;
        Ok(Self { bytes, stamped: 0, flushed: 0, reserved: None, queued: 0, unflushed: 0 })
    }

    /// Whether a frame of `len` bytes fits. Whatever was reserved before is abandoned.
    pub(super) fn has_room(&mut self, len: usize) -> bool {
        self.reserved = None;
        self.bytes.has_room(entry_len(len))
    }

    /// The place of a frame for which there is room.
    pub(super) fn reserve(&mut self, head: FrameHead, len: usize) -> Option<WindowMut<'_>> {
        if !self.has_room(len) {
            return None;
        }
        self.reserved = Some((head, len));
        let at = self.bytes.tail + PREFIX as u64;
        Some(self.bytes.window_mut(at, len))
    }

    pub(super) fn commit(&mut self, len: usize) {
        // The caller's contract: a frame is reserved, and long enough.
        let (head, reserved) = self.reserved.take().expect("commit without a reservation");
        assert!(len <= reserved, "commit of {len} bytes with {reserved} reserved");
        let words = FrameHeader::new(head, len as u32).to_words();
        let at = self.bytes.tail;
        let mut entry = self.bytes.window_mut(at, PREFIX);
        entry.set_word(0, words[0]);
        entry.set_word(8, words[1]);
        self.bytes.tail += entry_len(len) as u64;
        self.unflushed += 1;
    }

    pub(super) fn flush(&mut self) {
        self.flushed = self.bytes.tail;
        self.queued += std::mem::take(&mut self.unflushed);
    }

    fn header_at(&self, at: u64) -> FrameHeader {
        let prefix = self.bytes.window(at, PREFIX);
        // `commit` writes it into memory that no other thread sees.
        FrameHeader::from_words([prefix.word(0), prefix.word(8)]).expect("a header of our own")
    }

    /// Whether flushed frames wait to be put on the wire.
    pub(super) fn has_unstamped(&self) -> bool {
        self.stamped != self.flushed
    }

    /// Puts what was flushed on the wire; `leaves_at` says when a frame of so many bytes comes out.
    pub(super) fn stamp(&mut self, mut leaves_at: impl FnMut(u64) -> Time) {
        while self.stamped != self.flushed {
            let payload = self.header_at(self.stamped).payload_len() as usize;
            let time = leaves_at(frame_bytes(payload));
            let at = self.stamped;
            self.bytes.window_mut(at, PREFIX).set_word(16, time.as_nanos());
            self.stamped += entry_len(payload) as u64;
        }
    }

    /// When the first frame on the wire comes out.
    pub(super) fn first_release(&self) -> Option<Time> {
        let head = self.bytes.head;
        (head != self.stamped).then(|| Time::from_nanos(self.bytes.window(head, PREFIX).word(16)))
    }

    /// The first frame on the wire.
    pub(super) fn front(&self) -> Option<Front<'_>> {
        let at = self.bytes.head;
        if at == self.stamped {
            return None;
        }
        let header = self.header_at(at);
        let payload = self.bytes.window(at + PREFIX as u64, header.payload_len() as usize);
        Some(Front { head: header.head(), payload })
    }

    /// Takes the first frame off the wire.
    pub(super) fn pop(&mut self) {
        let payload = self.header_at(self.bytes.head).payload_len() as usize;
        self.bytes.pop(entry_len(payload));
        self.queued -= 1;
    }

    /// How many flushed frames have not been released yet.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        let tail = self.bytes.tail;
        (self.bytes.head, self.stamped, self.flushed) = (tail, tail, tail);
        (self.reserved, self.queued, self.unflushed) = (None, 0, 0);
    }
}
