//! How much of a queue may have memory.

use outboard_limits::{QueueMemory, growth};

/// The bytes that a queue may use without asking.
pub(crate) const FIRST: usize = 64 << 10;
/// How much more is asked for at a time.
const STEP: u64 = 64 << 10;

/// How much of a queue's bytes may be written: all of them, in a process that takes memory for none but itself. In others it
/// grows as the queue fills, while this process may take more.
pub(crate) struct Allotment {
    granted: u64,
    capacity: u64,
    memory: QueueMemory,
    grow: fn(&QueueMemory, u64) -> bool,
}

impl Allotment {
    /// That of a queue of `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = capacity as u64;
        let granted = if growth().is_watched() { capacity.min(FIRST as u64) } else { capacity };
        Self { granted, capacity, memory: QueueMemory::default(), grow: QueueMemory::grow }
    }

    /// How many bytes from the beginning of the queue may be written.
    #[inline]
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Up to where a count of bytes may go that begins at the queue's beginning. There is no end once it has all of its memory.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        if self.granted == self.capacity { u64::MAX } else { self.granted }
    }

    /// Whether the count may go up to `end`, with more memory if need be.
    #[cold]
    pub(crate) fn reach(&mut self, end: u64) -> bool {
        if end <= self.end() {
            return true;
        }
        let granted = end.next_multiple_of(STEP).min(self.capacity);
        let is_more = (self.grow)(&self.memory, granted - self.granted);
        if is_more {
            self.granted = granted;
        }
        is_more
    }

    /// One that gets no more than it has.
    #[cfg(test)]
    pub(crate) fn of(granted: u64, capacity: u64) -> Self {
        Self { granted, capacity, memory: QueueMemory::default(), grow: |_, _| false }
    }
}
