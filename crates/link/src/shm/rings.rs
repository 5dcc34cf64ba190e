//! The two rings of a link in their common segment.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use outboard_wire::{FrameHead, FrameHeader};
use rustix::io::Errno;

use crate::allotment::Allotment;
use crate::memory::copy::copy_to_shared;
use crate::memory::{Mapping, Mirror, Window, WindowMut};
use crate::ring::{Consumer, Cursors, Producer, record_len};
use crate::{Frame, Violation};

/// Which side of the handshake a process was on; decides which ring it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Accepting,
    Connecting,
}

/// The cursors at the head of the segment.
pub(super) struct MappedCursors {
    segment: Arc<Mapping>,
    offset: usize,
}

// Page-aligned start plus a multiple of their size.
const _: () = assert!(Cursors::LEN.is_multiple_of(align_of::<Cursors>()));

impl Deref for MappedCursors {
    type Target = Cursors;

    #[inline]
    fn deref(&self) -> &Cursors {
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned. Cursors consist of atomics, so
        // a reference is sound although the peer writes there.
        unsafe { self.segment.start().add(self.offset).cast().as_ref() }
    }
}

/// How the segment is laid out: a page of cursors, then the ring that the accepting side writes, then the other.
pub(super) struct Layout {
    head_len: usize,
    ring_bytes: usize,
}

impl Layout {
    pub(super) fn new(ring_bytes: u32) -> Self {
        Self { head_len: rustix::param::page_size(), ring_bytes: ring_bytes as usize }
    }

    pub(super) fn segment_len(&self) -> usize {
        self.head_len + 2 * self.ring_bytes
    }

    /// Maps the ring that `writer` writes.
    fn ring(&self, descriptor: BorrowedFd<'_>, writer: Side) -> Result<Mirror, Errno> {
        let offset = (self.head_len + writer as usize * self.ring_bytes) as u64;
        Mirror::map(descriptor, offset, self.ring_bytes)
    }

    /// Both rings, as seen from `side`.
    pub(super) fn rings(
        &self,
        (segment, descriptor): (&Arc<Mapping>, BorrowedFd<'_>),
        side: Side,
        max_payload: usize,
    ) -> Result<(Outgoing, Incoming), Errno> {
        let other = if side == Side::Accepting { Side::Connecting } else { Side::Accepting };
        let capacity = self.ring_bytes as u64;
        let cursors = |writer: Side| MappedCursors {
            segment: Arc::clone(segment),
            offset: writer as usize * Cursors::LEN,
        };
        let mirror = self.ring(descriptor, side)?;
        let mut outgoing = Outgoing {
            producer: Producer::new(cursors(side), capacity),
            mirror,
            allotment: Allotment::new(self.ring_bytes),
        };
        outgoing.producer.go_no_further_than(outgoing.allotment.end());
        let mirror = self.ring(descriptor, other)?;
        let incoming = Incoming { consumer: Consumer::new(cursors(other), capacity), mirror, max_payload };
        Ok((outgoing, incoming))
    }
}

/// Loads a word of a ring that the peer may be touching.
///
/// # Safety
/// `at` is an aligned word inside a live mapping.
#[inline]
unsafe fn load_word(at: NonNull<u8>) -> u64 {
    // SAFETY: by the caller's word; shared memory may be used through atomics.
    u64::from_le(unsafe { AtomicU64::from_ptr(at.cast().as_ptr()) }.load(Relaxed))
}

/// Stores a frame header into a ring that the peer may be touching.
///
/// One store instead of two, where the processor has it: a ring fills as fast as stores leave the store buffer,
/// and each takes a place there.
///
/// # Safety
/// `at` is aligned to 16, and 16 bytes from there are inside a live writable mapping.
#[inline]
unsafe fn store_header(at: NonNull<u8>, words: [u64; 2]) {
    let [first, second] = words.map(u64::to_le);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: by the caller's word. The compiler cannot see into the store, so it may race with the peer's.
    unsafe {
        core::arch::asm!(
            "movq {low}, {first}",
            "movq {high}, {second}",
            "punpcklqdq {low}, {high}",
            "movaps [{at}], {low}",
            first = in(reg) first,
            second = in(reg) second,
            at = in(reg) at.as_ptr(),
            low = out(xmm_reg) _,
            high = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(any(miri, not(target_arch = "x86_64")))]
    // SAFETY: by the caller's word; shared memory may be used through atomics.
    unsafe {
        AtomicU64::from_ptr(at.cast().as_ptr()).store(first, Relaxed);
        AtomicU64::from_ptr(at.add(8).cast().as_ptr()).store(second, Relaxed);
    }
}

/// The ring that this side writes.
pub(super) struct Outgoing {
    pub(super) producer: Producer<MappedCursors>,
    mirror: Mirror,
    allotment: Allotment,
}

impl Outgoing {
    /// Whether a record of `need` bytes can be written.
    #[inline]
    pub(super) fn has_room(&mut self, need: u64) -> Result<bool, Violation> {
        Ok(self.producer.has_room(need)? || self.has_more(need)?)
    }

    /// Whether there is room once the ring may use more memory, if it lacks that.
    #[cold]
    fn has_more(&mut self, need: u64) -> Result<bool, Violation> {
        let end = self.producer.position() + need;
        if end <= self.allotment.end() || !self.allotment.reach(end) {
            return Ok(false);
        }
        self.producer.go_no_further_than(self.allotment.end());
        self.producer.has_room(need)
    }

    /// Where the payload of the next frame goes; the caller has checked that there is room.
    #[inline]
    pub(super) fn payload(&mut self, len: usize) -> WindowMut<'_> {
        let at = self.mirror.at(self.producer.position());
        // SAFETY: a record of this length fits into the ring at this position, and a mirror is contiguous.
        unsafe { WindowMut::new(at.add(FrameHeader::LEN), len) }
    }

    /// Puts the header before a payload of `len` bytes and counts the frame as written.
    #[inline]
    pub(super) fn append(&mut self, head: FrameHead, len: usize) {
        let at = self.mirror.at(self.producer.position());
        // SAFETY: positions are multiples of 16 and a whole record fits here, so these are its first 16 bytes.
        unsafe { store_header(at, FrameHeader::new(head, len as u32).to_words()) };
        self.producer.advance(record_len(len) as u64);
    }

    /// Writes frames as long as the ring is known to be free. Returns how many, and their payload bytes; the
    /// iterator stands at the frame after the first that did not fit, which is returned.
    #[inline]
    pub(super) fn append_known<'a, I>(
        &mut self,
        frames: &mut I,
        max_payload: usize,
    ) -> (u64, u64, Option<(FrameHead, &'a [u8])>)
    where
        I: Iterator<Item = (FrameHead, &'a [u8])>,
    {
        let begin = self.producer.position();
        let limit = self.producer.known_limit();
        let (mut position, mut count, mut bytes) = (begin, 0, 0);
        let mut refused = None;
        for (head, payload) in frames.by_ref() {
            let end = position + record_len(payload.len()) as u64;
            if payload.len() > max_payload || end > limit {
                refused = Some((head, payload));
                break;
            }
            let at = self.mirror.at(position);
            // SAFETY: the whole record lies before the limit, so in free space, and a mirror is contiguous;
            // positions are multiples of 16.
            unsafe {
                copy_to_shared(payload.as_ptr(), at.as_ptr().add(FrameHeader::LEN), payload.len());
                store_header(at, FrameHeader::new(head, payload.len() as u32).to_words());
            }
            position = end;
            count += 1;
            bytes += payload.len() as u64;
        }
        self.producer.advance(position - begin);
        (count, bytes, refused)
    }
}

/// The ring that the peer writes.
pub(super) struct Incoming {
    pub(super) consumer: Consumer<MappedCursors>,
    mirror: Mirror,
    max_payload: usize,
}

impl Incoming {
    /// The next frame, if one has arrived. Its header is copied once and then checked.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<Option<Frame<'_>>, Violation> {
        let available = self.consumer.available()?;
        if available == 0 {
            return Ok(None);
        }
        let at = self.mirror.at(self.consumer.position());
        // SAFETY: what is published is a multiple of 16 bytes and not none, so two aligned words are there.
        let words = unsafe { [load_word(at), load_word(at.add(8))] };
        let header = FrameHeader::from_words(words)?;
        let len = header.payload_len() as usize;
        if len > self.max_payload || record_len(len) as u64 > available {
            return Err(Violation::Oversize { len: len as u64, available });
        }
        // SAFETY: the payload was published and lies in the mirror behind its header.
        let payload = unsafe { Window::new(at.add(FrameHeader::LEN), len) };
        Ok(Some(Frame { head: header.head(), payload }))
    }
}
