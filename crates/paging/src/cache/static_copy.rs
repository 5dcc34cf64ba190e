//! A whole region in memory of its own, loaded once.

use super::load::Waiter;

/// One reading of a static copy asks for so many bytes at most.
const READ_MAX: u64 = 256 << 10;
/// So many readings are under way at most.
const READS_MAX: u32 = 4;

/// Loads a region once, from its beginning to its end, in large reads. Write-backs that pass meanwhile are not lost:
/// what they overtook is read again.
#[derive(Clone, Debug)]
pub struct StaticCopy {
    size: u64,
    /// Everything before has been asked for.
    next: u64,
    reads: u32,
    /// Stretches that must be read once more.
    again: Vec<(u64, u64)>,
    /// Stretches that are being read.
    reading: Vec<Reading>,
    /// Write-backs that the server has not acknowledged.
    writing: Vec<(u64, u64)>,
    waiters: Vec<Waiter>,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    offset: u64,
    len: u64,
    is_spoiled: bool,
}

fn meets((offset, len): (u64, u64), (other, other_len): (u64, u64)) -> bool {
    offset < other.saturating_add(other_len) && other < offset.saturating_add(len)
}

impl StaticCopy {
    /// An empty copy of a region of `size` bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            next: 0,
            reads: 0,
            again: Vec::new(),
            reading: Vec::new(),
            writing: Vec::new(),
            waiters: Vec::new(),
        }
    }

    /// Whether all of it is there.
    pub fn is_complete(&self) -> bool {
        self.next == self.size && self.reading.is_empty() && self.again.is_empty()
    }

    /// How many bytes are there, or have been asked for.
    pub fn loaded(&self) -> u64 {
        self.next
    }

    /// Someone waits for all of it.
    pub fn wait(&mut self, waiter: Waiter) {
        self.waiters.push(waiter);
    }

    /// Whoever waits, if the wait is over.
    pub fn take_waiters(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.waiters)
    }

    /// The next stretch to read, of at most `len_max` bytes; `None` if enough are under way, nothing is left, or it
    /// is being written.
    pub fn next_read(&mut self, len_max: u64) -> Option<(u64, u64)> {
        if self.reads >= READS_MAX {
            return None;
        }
        let most = READ_MAX.min(len_max.max(1));
        let (offset, len) = match self.again.last_mut() {
            Some((offset, left)) => (*offset, most.min(*left)),
            None if self.next < self.size => (self.next, most.min(self.size - self.next)),
            None => return None,
        };
        if self.writing.iter().any(|writing| meets(*writing, (offset, len))) {
            return None;
        }
        match self.again.last_mut() {
            Some((_, left)) if *left == len => drop(self.again.pop()),
            Some((start, left)) => (*start, *left) = (*start + len, *left - len),
            None => self.next += len,
        }
        self.reads += 1;
        self.reading.push(Reading { offset, len, is_spoiled: false });
        Some((offset, len))
    }

    /// A reading is over, or could not begin. What did not come well, or was overtaken by a write-back, is read again.
    pub fn finish(&mut self, offset: u64, is_done: bool) {
        let Some(index) = self.reading.iter().position(|reading| reading.offset == offset) else { return };
        let Reading { len, is_spoiled, .. } = self.reading.swap_remove(index);
        self.reads -= 1;
        if !is_done || is_spoiled {
            self.again.push((offset, len));
        }
    }

    /// A write-back has come. Returns whether its bytes may be copied in at once: not while the same bytes are being
    /// read.
    pub fn write_begins(&mut self, offset: u64, len: u64) -> bool {
        let mut is_free = true;
        for reading in self.reading.iter_mut().filter(|r| meets((r.offset, r.len), (offset, len))) {
            reading.is_spoiled = true;
            is_free = false;
        }
        self.writing.push((offset, len));
        is_free
    }

    /// A write-back is over; if it failed, its bytes are not those of the server.
    pub fn write_ends(&mut self, offset: u64, len: u64, is_done: bool) {
        if let Some(index) = self.writing.iter().position(|writing| *writing == (offset, len)) {
            self.writing.swap_remove(index);
        }
        if !is_done && offset < self.next {
            self.again.push((offset, len.min(self.next - offset)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_read_once() {
        let mut copy = StaticCopy::new(1_000_000);
        let mut read = Vec::new();
        while !copy.is_complete() {
            while let Some((offset, len)) = copy.next_read(300_000) {
                read.push((offset, len));
            }
            let (offset, _) = read[read.len() - 1];
            copy.finish(offset, true);
            for (offset, _) in &read {
                copy.finish(*offset, true);
            }
        }
        read.sort_unstable();
        let end = read.iter().fold(0, |end, (offset, len)| {
            assert_eq!(*offset, end);
            offset + len
        });
        assert_eq!(end, 1_000_000);
    }

    #[test]
    fn what_a_write_back_overtook_is_read_again_but_not_before_it_is_done() {
        let mut copy = StaticCopy::new(100);
        assert_eq!(copy.next_read(1000), Some((0, 100)));
        assert!(!copy.write_begins(10, 5));
        copy.finish(0, true);
        assert!(!copy.is_complete());
        assert_eq!(copy.next_read(1000), None, "the server may not have it yet");
        copy.write_ends(10, 5, true);
        assert_eq!(copy.next_read(1000), Some((0, 100)));
        copy.finish(0, true);
        assert!(copy.is_complete());
    }

    #[test]
    fn a_failed_reading_or_write_back_is_repaired() {
        let mut copy = StaticCopy::new(100);
        copy.next_read(1000);
        copy.finish(0, false);
        assert_eq!(copy.next_read(1000), Some((0, 100)));
        copy.finish(0, true);
        assert!(copy.write_begins(90, 10) && copy.is_complete());
        copy.write_ends(90, 10, false);
        assert!(!copy.is_complete());
        assert_eq!(copy.next_read(1000), Some((90, 10)));
        copy.finish(90, false);
        assert_eq!(copy.next_read(1000), Some((90, 10)));
    }
}
