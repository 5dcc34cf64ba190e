//! A queue of bytes that nobody outside this process sees.

use core::ptr::NonNull;

use rustix::io::Errno;

use crate::memory::{Mirror, Window, WindowMut};

/// A queue of bytes, contiguous at both ends. Whenever it runs empty it starts over at the beginning, so that a
/// link that keeps up uses the same few cache lines again and again.
pub(super) struct Fifo {
    mirror: Mirror,
    head: u64,
    tail: u64,
}

impl Fifo {
    pub(super) fn new(capacity: usize) -> Result<Self, Errno> {
        Ok(Self { mirror: Mirror::private(capacity)?, head: 0, tail: 0 })
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

    #[inline]
    fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// What is in it.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as `self` and initialised by the kernel. No other process knows this memory, and
        // whoever writes to it here borrows `self` mutably. At most `capacity` bytes, so none appears twice.
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
