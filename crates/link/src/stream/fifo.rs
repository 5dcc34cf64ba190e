//! A queue of bytes that no other process sees.

use core::ptr::NonNull;

use rustix::io::Errno;

use crate::allotment::Allotment;
use crate::memory::{Mirror, Window, WindowMut};

/// A queue of bytes, contiguous at both ends. Whenever it runs empty it starts over at the beginning, so that a
/// link that keeps up uses the same few cache lines again and again.
pub(super) struct Fifo {
    mirror: Mirror,
    allotment: Allotment,
    head: u64,
    tail: u64,
}

impl Fifo {
    pub(super) fn new(capacity: usize) -> Result<Self, Errno> {
        let allotment = Allotment::new(capacity);
        Ok(Self { mirror: Mirror::private(capacity)?, allotment, head: 0, tail: 0 })
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.mirror.capacity()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// How many bytes can be appended at once.
    #[inline]
    pub(super) fn room(&self) -> usize {
        let end = (self.head + self.capacity() as u64).min(self.allotment.end());
        (end - self.tail) as usize
    }

    /// Whether `len` bytes can be appended, after some work if need be.
    #[inline]
    pub(super) fn has_room(&mut self, len: usize) -> bool {
        len <= self.room() || self.make_room(len)
    }

    /// Makes room by taking more memory, or by beginning anew at the beginning.
    #[cold]
    fn make_room(&mut self, len: usize) -> bool {
        let all = self.len() + len;
        if all > self.capacity() {
            return false;
        }
        let is_half_used = self.head >= self.allotment.granted() / 2;
        let fits = all as u64 <= self.allotment.granted();
        if !(fits && is_half_used) && self.allotment.reach(self.tail + len as u64) {
            return true;
        }
        let fits = fits || self.allotment.reach(all as u64);
        if fits {
            self.begin_anew();
        }
        fits
    }

    /// Takes as much memory again as it has, if that can be had.
    pub(super) fn double(&mut self) {
        let granted = self.allotment.granted();
        if granted < self.capacity() as u64 {
            self.allotment.reach(2 * granted);
        }
    }

    /// Moves what is in it to the beginning.
    fn begin_anew(&mut self) {
        let (from, len) = (self.head as usize, self.len());
        // SAFETY: mapped as long as `self` and initialised by the kernel, as below; the borrow is exclusive. A queue that has
        // not all of its memory never runs over the end, so its bytes lie once in the first copy.
        let all = unsafe { core::slice::from_raw_parts_mut(self.mirror.at(0).as_ptr(), self.capacity()) };
        all.copy_within(from..from + len, 0);
        (self.head, self.tail) = (0, len as u64);
    }

    /// The bytes in it.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as `self` and initialised by the kernel. No other process knows this memory, and
        // code here that writes to it borrows `self` mutably. At most `capacity` bytes, so none appears twice.
        unsafe { core::slice::from_raw_parts(self.mirror.at(self.head).as_ptr(), self.len()) }
    }

    /// Where the next bytes go: all the room there is.
    #[inline]
    pub(super) fn room_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.mirror.at(self.tail).as_ptr(), self.room()) }
    }

    /// The `len` bytes that lie `offset` behind the last.
    ///
    /// # Panics
    /// If there is less room.
    #[inline]
    pub(super) fn room_window(&mut self, offset: usize, len: usize) -> WindowMut<'_> {
        let start = NonNull::from(&mut self.room_mut()[offset..offset + len]).cast();
        // SAFETY: the bytes of a slice borrowed as long as the window lives.
        unsafe { WindowMut::new(start, len) }
    }

    /// The first `len` bytes of the room are now in the queue.
    #[inline]
    pub(super) fn append(&mut self, len: usize) {
        assert!(len <= self.room(), "more bytes appended than there was room");
        self.tail += len as u64;
    }

    /// Appends a copy of what a window shows. There must be room.
    pub(super) fn push(&mut self, bytes: Window<'_>) {
        self.room_window(0, bytes.len()).write_window(0, bytes);
        self.append(bytes.len());
    }

    /// The first `len` bytes are no longer needed.
    #[inline]
    pub(super) fn consume(&mut self, len: usize) {
        assert!(len <= self.len(), "more bytes consumed than there were");
        self.head += len as u64;
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allotment::FIRST;

    #[test]
    fn a_queue_that_gets_no_more_memory_uses_what_it_has_again() {
        let mut fifo = Fifo::new(4 * FIRST).unwrap();
        fifo.allotment = Allotment::of(FIRST as u64, 4 * FIRST as u64);
        let (mut next_in, mut next_out, mut state) = (0u32, 0u32, 7u64);
        for _ in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (more, less) = ((state >> 33) as usize % 9000, (state >> 45) as usize % 9000);
            let fits = fifo.len() + more <= FIRST;
            assert_eq!(fifo.has_room(more), fits);
            if fits {
                for (place, value) in fifo.room_mut().iter_mut().zip(next_in..).take(more) {
                    *place = value as u8;
                }
                fifo.append(more);
                next_in = next_in.wrapping_add(more as u32);
            }
            let less = less.min(fifo.len());
            assert!(fifo.bytes()[..less].iter().zip(next_out..).all(|(byte, value)| *byte == value as u8));
            fifo.consume(less);
            next_out = next_out.wrapping_add(less as u32);
            assert!(fifo.tail <= FIRST as u64);
        }
        assert!(next_out > 4 * FIRST as u32);
    }

    #[test]
    fn bytes_come_out_as_they_went_in_wherever_they_lie() {
        let mut fifo = Fifo::new(1 << 16).unwrap();
        let mut next_in = 0u32;
        let mut next_out = 0u32;
        for step in 0..200u32 {
            let count = ((step * 7919) % 12_000) as usize;
            for (place, value) in fifo.room_mut().iter_mut().zip(next_in..).take(count) {
                *place = value as u8;
            }
            let count = count.min(fifo.room());
            fifo.append(count);
            next_in = next_in.wrapping_add(count as u32);
            let take = ((step * 104_729) as usize % 13_000).min(fifo.len());
            assert!(fifo.bytes()[..take].iter().zip(next_out..).all(|(byte, value)| *byte == value as u8));
            fifo.consume(take);
            next_out = next_out.wrapping_add(take as u32);
        }
        assert!(next_out > 2 << 16);
    }
}
