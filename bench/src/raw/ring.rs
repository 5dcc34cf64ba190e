//! A single-producer single-consumer ring of fixed slots in shared memory, with nothing around it.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use outboard_link::memory::{Segment, SegmentAccess};

use crate::BenchError;
use crate::error::Named;
use crate::pair::{Control, spin_until};

/// Where the producer's count lies.
const TAIL: usize = 0;
/// Where the consumer's count lies, on cache lines of its own.
const HEAD: usize = 128;
/// Where the slots begin.
const SLOTS: usize = 4096;

/// Two rings of `bytes` bytes each, one for each direction, in one segment.
pub(crate) struct BareRings {
    segment: Arc<Segment>,
    bytes: usize,
}

impl BareRings {
    /// Makes them and hands them to the peer.
    pub(crate) fn offer(control: &Control, bytes: usize) -> Result<Self, BenchError> {
        let segment = Segment::create(c"outboard-bare-rings", Self::len(bytes)).named("memfd_create")?;
        control.send_descriptor(segment.descriptor())?;
        Ok(Self { segment: Arc::new(segment), bytes })
    }

    /// Hands them to another process too.
    pub(crate) fn share(&self, control: &Control) -> Result<(), BenchError> {
        control.send_descriptor(self.segment.descriptor())
    }

    /// Maps those that the lead made.
    pub(crate) fn take(control: &Control, bytes: usize) -> Result<Self, BenchError> {
        let descriptor = control.receive_descriptor()?;
        let segment = Segment::adopt(descriptor, Self::len(bytes), SegmentAccess::ReadWrite)
            .map_err(std::io::Error::other)
            .named("mmap")?;
        Ok(Self { segment: Arc::new(segment), bytes })
    }

    fn len(bytes: usize) -> usize {
        2 * (SLOTS + bytes)
    }

    fn base(&self, number: usize) -> usize {
        assert!(number < 2, "there are two rings");
        number * (SLOTS + self.bytes)
    }

    fn slots<const SLOT: usize>(&self, number: usize) -> (*mut [u8; SLOT], u64) {
        let count = self.bytes / SLOT;
        assert!(count.is_power_of_two() && count * SLOT == self.bytes, "slots fill the ring");
        // SAFETY: inside the segment, which has room for both rings.
        let start = unsafe { self.segment.start().as_ptr().add(self.base(number) + SLOTS) };
        (start.cast(), count as u64)
    }

    /// The writing side of ring `number`; there must be one only.
    pub(crate) fn writer<const SLOT: usize>(&self, number: usize) -> BareWriter<SLOT> {
        let (slots, count) = self.slots(number);
        let (segment, base) = (Arc::clone(&self.segment), self.base(number));
        BareWriter { segment, base, slots, count, tail: 0, published: 0, head: 0 }
    }

    /// The reading side of ring `number`; there must be one only.
    pub(crate) fn reader<const SLOT: usize>(&self, number: usize) -> BareReader<SLOT> {
        let (slots, count) = self.slots(number);
        let (segment, base) = (Arc::clone(&self.segment), self.base(number));
        BareReader { segment, base, slots, mask: count - 1, head: 0, tail: 0 }
    }
}

/// The side that writes.
pub(crate) struct BareWriter<const SLOT: usize> {
    segment: Arc<Segment>,
    base: usize,
    slots: *mut [u8; SLOT],
    count: u64,
    tail: u64,
    published: u64,
    head: u64,
}

impl<const SLOT: usize> BareWriter<SLOT> {
    /// Copies one message into the next slot; publishes whenever `batch` have gathered.
    #[inline]
    pub(crate) fn push(&mut self, message: &[u8; SLOT], batch: u64) -> Result<(), BenchError> {
        if self.tail - self.head == self.count {
            self.wait_for_room()?;
        }
        // SAFETY: the index is below the number of slots, and the reader has given this slot back.
        unsafe { self.slots.add((self.tail & (self.count - 1)) as usize).write(*message) };
        self.tail += 1;
        if self.tail - self.published >= batch {
            self.publish();
        }
        Ok(())
    }

    /// Where the next `count` messages go, if there is room; they are shown to the reader by
    /// [`publish_batch`](Self::publish_batch). A ring that is used this way holds whole batches only.
    #[inline]
    pub(crate) fn try_batch(&mut self, count: u64) -> Option<*mut [u8; SLOT]> {
        debug_assert!(self.count.is_multiple_of(count) && self.tail.is_multiple_of(count), "whole batches");
        if self.tail - self.head > self.count - count {
            self.head = self.word(HEAD).load(Ordering::Acquire);
            if self.tail - self.head > self.count - count {
                return None;
            }
        }
        // SAFETY: the index is below the number of slots; batches never wrap.
        Some(unsafe { self.slots.add((self.tail & (self.count - 1)) as usize) })
    }

    /// Shows a batch to the reader that was written where [`try_batch`](Self::try_batch) said.
    #[inline]
    pub(crate) fn publish_batch(&mut self, count: u64) {
        self.tail += count;
        self.publish();
    }

    /// Copies one message into the next slot and shows it to the reader.
    ///
    /// # Panics
    /// If it is not as long as a slot.
    #[inline]
    pub(crate) fn push_bytes(&mut self, message: &[u8]) -> Result<(), BenchError> {
        assert_eq!(message.len(), SLOT, "a message fills its slot");
        if self.tail - self.head == self.count {
            self.wait_for_room()?;
        }
        // SAFETY: as in `push`; the length was checked.
        unsafe {
            let slot = self.slots.add((self.tail & (self.count - 1)) as usize);
            slot.cast::<u8>().copy_from_nonoverlapping(message.as_ptr(), SLOT);
        }
        self.tail += 1;
        self.publish();
        Ok(())
    }

    /// Shows the reader all that was written.
    #[inline]
    pub(crate) fn publish(&mut self) {
        self.published = self.tail;
        self.word(TAIL).store(self.tail, Ordering::Release);
    }

    #[cold]
    fn wait_for_room(&mut self) -> Result<(), BenchError> {
        self.publish();
        let (word, known) = (self.word(HEAD), self.head);
        self.head = spin_until("room in the bare ring", || {
            Some(word.load(Ordering::Acquire)).filter(|head| *head != known)
        })?;
        Ok(())
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.segment.word(self.base + offset)
    }
}

/// The side that reads.
pub(crate) struct BareReader<const SLOT: usize> {
    segment: Arc<Segment>,
    base: usize,
    slots: *mut [u8; SLOT],
    mask: u64,
    head: u64,
    tail: u64,
}

impl<const SLOT: usize> BareReader<SLOT> {
    /// Waits for messages and hands up to `max` of them to `sink`, then gives their slots back.
    #[inline]
    pub(crate) fn pull(&mut self, max: u64, mut sink: impl FnMut(&[u8; SLOT])) -> Result<u64, BenchError> {
        if self.tail == self.head {
            let (word, known) = (self.segment.word(self.base + TAIL), self.head);
            self.tail = spin_until("a message in the bare ring", || {
                Some(word.load(Ordering::Acquire)).filter(|tail| *tail != known)
            })?;
        }
        let count = max.min(self.tail - self.head);
        for index in self.head..self.head + count {
            // SAFETY: the index is below the number of slots, and the writer leaves the slot alone until it is
            // given back below.
            sink(unsafe { &*self.slots.add((index & self.mask) as usize) });
        }
        self.head += count;
        self.segment.word(self.base + HEAD).store(self.head, Ordering::Release);
        Ok(count)
    }

    /// Hands a batch of `count` messages to `sink`, if there is one, and gives its slots back. Returns whether there was.
    #[inline]
    pub(crate) fn pull_batch(&mut self, count: u64, sink: impl FnOnce(&[[u8; SLOT]])) -> bool {
        debug_assert!(self.head.is_multiple_of(count), "whole batches");
        if self.tail - self.head < count {
            self.tail = self.segment.word(self.base + TAIL).load(Ordering::Acquire);
            if self.tail - self.head < count {
                return false;
            }
        }
        // SAFETY: batches never wrap, so all indices are below the number of slots, and the writer leaves the slots alone
        // until they are given back below.
        sink(unsafe {
            std::slice::from_raw_parts(self.slots.add((self.head & self.mask) as usize), count as usize)
        });
        self.head += count;
        self.segment.word(self.base + HEAD).store(self.head, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    const LEN: usize = 1 << 16;

    #[test]
    fn two_threads_see_the_same_messages_in_order() {
        let (one, other) = UnixStream::pair().unwrap();
        let ours = BareRings::offer(&Control::new(one).unwrap(), LEN).unwrap();
        let other = Control::new(other).unwrap();
        let sum = std::thread::spawn(move || {
            let rings = BareRings::take(&other, LEN).unwrap();
            let (mut reader, mut seen) = (rings.reader::<64>(1), 0u32);
            while seen < 10_000 {
                reader
                    .pull(48, |message| {
                        assert_eq!(message[..4], seen.to_le_bytes());
                        seen += 1;
                    })
                    .unwrap();
            }
            seen
        });
        let mut writer = ours.writer::<64>(1);
        for number in 0..10_000u32 {
            let mut message = [0; 64];
            message[..4].copy_from_slice(&number.to_le_bytes());
            writer.push(&message, 32).unwrap();
        }
        writer.publish();
        assert_eq!(sum.join().unwrap(), 10_000);
    }
}
