//! The counts of a ring, private and published, and who wakes whom.

use core::ops::Deref;

use super::RECORD_ALIGN;
use crate::Violation;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The count that the producer publishes, alone on its cache lines.
#[repr(C, align(128))]
struct ProducerLine {
    tail: AtomicU64,
    waits: AtomicU32,
}

/// The count that the consumer publishes, alone on its cache lines.
#[repr(C, align(128))]
struct ConsumerLine {
    head: AtomicU64,
    waits: AtomicU32,
}

/// The counts that the two sides of a ring publish to each other. They are bytes since the beginning, and only grow.
#[repr(C)]
pub struct Cursors {
    producer: ProducerLine,
    consumer: ConsumerLine,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Cursors>() == Cursors::LEN);
    assert!(core::mem::offset_of!(Cursors, consumer) == 128);
    assert!(core::mem::offset_of!(ProducerLine, waits) == 8);
};

impl Cursors {
    /// Their size in a segment.
    pub const LEN: usize = 256;

    /// An empty ring.
    pub fn new() -> Self {
        Self {
            producer: ProducerLine { tail: AtomicU64::new(0), waits: AtomicU32::new(0) },
            consumer: ConsumerLine { head: AtomicU64::new(0), waits: AtomicU32::new(0) },
        }
    }
}

impl Default for Cursors {
    fn default() -> Self {
        Self::new()
    }
}

/// Says "wake me", unless `is_ready` shows afterwards that there is no need to sleep.
///
/// The fence pairs with the one in [`needs_wake`]: of two sides that publish and look at once, at least one sees
/// the other.
fn ask_to_be_woken(waits: &AtomicU32, is_ready: impl FnOnce() -> bool) -> bool {
    waits.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if is_ready() {
        waits.store(0, Ordering::Relaxed);
        return false;
    }
    true
}

/// After publishing: whether the other side sleeps and must be woken. Only one caller is told so.
#[inline]
fn needs_wake(waits: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    waits.load(Ordering::Relaxed) != 0 && waits.swap(0, Ordering::Relaxed) != 0
}

/// The side that writes.
pub struct Producer<C> {
    cursors: C,
    capacity: u64,
    /// Everything up to here is written.
    tail: u64,
    /// Everything up to here is published.
    published: u64,
    /// The last count of the consumer that was seen and found possible.
    head: u64,
    /// Nothing is written beyond it, whatever the consumer has read.
    end: u64,
}

impl<C: Deref<Target = Cursors>> Producer<C> {
    /// The writing side of a fresh ring of `capacity` bytes.
    pub fn new(cursors: C, capacity: u64) -> Self {
        Self { cursors, capacity, tail: 0, published: 0, head: 0, end: u64::MAX }
    }

    /// Writes up to `end` and no further, until that is set anew.
    pub fn go_no_further_than(&mut self, end: u64) {
        self.end = end;
    }

    /// How many bytes the consumer has not read, and how many it has.
    pub fn unread(&mut self) -> Result<(u64, u64), Violation> {
        self.look()?;
        Ok((self.published - self.head, self.head))
    }

    /// Where the next byte goes.
    #[inline]
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// Whether `need` bytes can be written; looks at the consumer only if it must.
    #[inline]
    pub fn has_room(&mut self, need: u64) -> Result<bool, Violation> {
        if self.tail + need <= self.known_limit() {
            return Ok(true);
        }
        self.look()?;
        Ok(self.tail + need <= self.known_limit())
    }

    fn look(&mut self) -> Result<(), Violation> {
        let head = self.cursors.consumer.head.load(Ordering::Acquire);
        if head < self.head || head > self.published {
            return Err(Violation::Index { index: head, known: self.published, capacity: self.capacity });
        }
        self.head = head;
        Ok(())
    }

    /// Up to where the ring is known to be free, without looking at the consumer.
    #[inline]
    pub fn known_limit(&self) -> u64 {
        (self.head + self.capacity).min(self.end)
    }

    /// Counts `len` bytes as written.
    #[inline]
    pub fn advance(&mut self, len: u64) {
        self.tail += len;
    }

    /// Whether something is written and not published.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        self.tail != self.published
    }

    /// Shows the consumer all that was written. Returns whether it sleeps and must be woken.
    #[inline]
    pub fn publish(&mut self) -> bool {
        self.published = self.tail;
        self.cursors.producer.tail.store(self.tail, Ordering::Release);
        needs_wake(&self.cursors.consumer.waits)
    }

    /// Asks to be woken when the consumer makes room. Returns false if there is room for `need` already.
    pub fn prepare_to_wait(&mut self, need: u64) -> Result<bool, Violation> {
        let cursors = &*self.cursors;
        let enough = |head: u64| self.tail + need <= (head.min(self.tail) + self.capacity).min(self.end);
        let asleep = ask_to_be_woken(&cursors.producer.waits, || {
            enough(cursors.consumer.head.load(Ordering::Acquire))
        });
        self.look()?;
        Ok(asleep)
    }
}

/// The side that reads.
pub struct Consumer<C> {
    cursors: C,
    capacity: u64,
    /// Everything up to here is read.
    head: u64,
    /// Everything up to here is given back.
    released: u64,
    /// The last count of the producer that was seen and found possible.
    tail: u64,
}

impl<C: Deref<Target = Cursors>> Consumer<C> {
    /// The reading side of a fresh ring of `capacity` bytes.
    pub fn new(cursors: C, capacity: u64) -> Self {
        Self { cursors, capacity, head: 0, released: 0, tail: 0 }
    }

    /// Where the next byte to read lies.
    #[inline]
    pub fn position(&self) -> u64 {
        self.head
    }

    /// How many bytes can be read; looks at the producer only if none are known.
    #[inline]
    pub fn available(&mut self) -> Result<u64, Violation> {
        if self.head == self.tail {
            self.look()?;
        }
        Ok(self.tail - self.head)
    }

    #[inline]
    fn look(&mut self) -> Result<(), Violation> {
        let tail = self.cursors.producer.tail.load(Ordering::Acquire);
        let is_possible = tail >= self.tail
            && tail - self.released <= self.capacity
            && tail.is_multiple_of(RECORD_ALIGN as u64);
        if !is_possible {
            return Err(Violation::Index { index: tail, known: self.tail, capacity: self.capacity });
        }
        self.tail = tail;
        Ok(())
    }

    /// Counts `len` bytes as read.
    #[inline]
    pub fn advance(&mut self, len: u64) {
        self.head += len;
    }

    /// Gives all that was read back to the producer. Returns whether it sleeps and must be woken.
    #[inline]
    pub fn release(&mut self) -> bool {
        if self.released == self.head {
            return false;
        }
        self.released = self.head;
        self.cursors.consumer.head.store(self.head, Ordering::Release);
        needs_wake(&self.cursors.producer.waits)
    }

    /// Asks to be woken when the producer publishes. Returns false if there is something to read already.
    pub fn prepare_to_wait(&mut self) -> Result<bool, Violation> {
        if self.available()? > 0 {
            return Ok(false);
        }
        let cursors = &*self.cursors;
        let asleep = ask_to_be_woken(&cursors.consumer.waits, || {
            cursors.producer.tail.load(Ordering::Acquire) != self.tail
        });
        Ok(asleep)
    }
}
