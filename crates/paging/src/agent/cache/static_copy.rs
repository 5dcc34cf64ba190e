//! A whole region in memory of its own, loaded once.

use outboard_wire::mutant;

use super::load::WaiterId;

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
    /// Ranges that must be read once more.
    again: Vec<(u64, u64)>,
    /// Ranges that are being read.
    reading: Vec<Reading>,
    /// Write-backs that the server has not acknowledged.
    writing: Vec<Writing>,
    waiters: Vec<WaiterId>,
    next_number: u32,
}

/// A range of a copy to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySpan {
    /// Its name when it is over: ranges that are read at one time may overlap.
    pub number: u32,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Reading {
    range: CopySpan,
    is_spoiled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Writing {
    place: (u64, u64),
    /// Whether its bytes were copied in when it came.
    is_copied: bool,
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
            next_number: 0,
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

    /// A client waits for all of it.
    pub fn wait(&mut self, waiter: WaiterId) {
        self.waiters.push(waiter);
    }

    /// The clients that wait, if the wait is over.
    pub fn take_waiters(&mut self) -> Vec<WaiterId> {
        std::mem::take(&mut self.waiters)
    }

    /// The next range to read, of at most `len_max` bytes; `None` if enough are under way, nothing is left, or it
    /// is being written.
    pub fn next_read(&mut self, len_max: u64) -> Option<CopySpan> {
        if self.reads >= READS_MAX {
            return None;
        }
        let most = READ_MAX.min(len_max.max(1));
        let (offset, len) = match self.again.last_mut() {
            Some((offset, left)) => (*offset, most.min(*left)),
            None if self.next < self.size => (self.next, most.min(self.size - self.next)),
            None => return None,
        };
        if self.writing.iter().any(|writing| meets(writing.place, (offset, len))) {
            return None;
        }
        match self.again.last_mut() {
            Some((_, left)) if *left == len => drop(self.again.pop()),
            Some((start, left)) => (*start, *left) = (*start + len, *left - len),
            None => self.next += len,
        }
        self.reads += 1;
        self.next_number = self.next_number.wrapping_add(1);
        let range = CopySpan { number: self.next_number, offset, len };
        self.reading.push(Reading { range, is_spoiled: false });
        Some(range)
    }

    /// A reading is over, or could not begin. What did not come well, or was overtaken by a write-back, is read again.
    pub fn finish(&mut self, number: u32, is_done: bool) {
        let Some(index) = self.reading.iter().position(|reading| reading.range.number == number) else {
            return;
        };
        let Reading { range, is_spoiled } = self.reading.swap_remove(index);
        self.reads -= 1;
        if !is_done || is_spoiled {
            self.again.push((range.offset, range.len));
        }
    }

    /// A write-back has come. Returns whether its bytes may be copied in at once: not while the same bytes are being
    /// read. Then all of them are read again when it is over, those too that are there already.
    pub fn write_begins(&mut self, offset: u64, len: u64) -> bool {
        let place = (offset, len);
        let mut is_copied = true;
        for reading in self.reading.iter_mut().filter(|r| meets((r.range.offset, r.range.len), place)) {
            reading.is_spoiled = true;
            is_copied = false;
        }
        self.writing.push(Writing { place, is_copied });
        is_copied
    }

    /// A write-back is over; if it failed, its bytes are not those of the server.
    pub fn write_ends(&mut self, offset: u64, len: u64, is_done: bool) {
        let index = self.writing.iter().position(|writing| writing.place == (offset, len));
        let is_copied = index.is_none_or(|index| self.writing.swap_remove(index).is_copied)
            || mutant("paging.write-across-readings-missed");
        if !(is_done && is_copied) && offset < self.next {
            self.again.push((offset, len.min(self.next - offset)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins the next reading, and tells where it is.
    fn read(copy: &mut StaticCopy, len_max: u64) -> Option<(u64, u64)> {
        copy.next_read(len_max).map(|range| (range.offset, range.len))
    }

    /// Ends the readings that are under way, the oldest first.
    fn finish(copy: &mut StaticCopy, is_done: bool) {
        let numbers: Vec<u32> = copy.reading.iter().map(|reading| reading.range.number).collect();
        numbers.into_iter().for_each(|number| copy.finish(number, is_done));
    }

    #[test]
    fn all_of_it_is_read_once() {
        let mut copy = StaticCopy::new(1_000_000);
        let mut ranges = Vec::new();
        while !copy.is_complete() {
            while let Some(range) = copy.next_read(300_000) {
                ranges.push((range.offset, range.len));
            }
            finish(&mut copy, true);
        }
        ranges.sort_unstable();
        let end = ranges.iter().fold(0, |end, (offset, len)| {
            assert_eq!(*offset, end);
            offset + len
        });
        assert_eq!(end, 1_000_000);
    }

    #[test]
    fn what_a_write_back_overtook_is_read_again_but_not_before_it_is_done() {
        let mut copy = StaticCopy::new(100);
        assert_eq!(read(&mut copy, 1000), Some((0, 100)));
        assert!(!copy.write_begins(10, 5));
        finish(&mut copy, true);
        assert!(!copy.is_complete());
        assert_eq!(copy.next_read(1000), None, "the server may not have it yet");
        copy.write_ends(10, 5, true);
        while read(&mut copy, 1000).is_some() {
            finish(&mut copy, true);
        }
        assert!(copy.is_complete());
    }

    #[test]
    fn a_write_back_to_bytes_that_are_there_and_to_bytes_that_are_being_read_is_read_again_as_a_whole() {
        let mut copy = StaticCopy::new(100);
        let first = copy.next_read(50).unwrap();
        assert_eq!(read(&mut copy, 50), Some((50, 50)));
        copy.finish(first.number, true);
        assert!(!copy.write_begins(40, 20), "half of it is being read");
        finish(&mut copy, true);
        copy.write_ends(40, 20, true);
        let mut again = [0; 100];
        while let Some((offset, len)) = read(&mut copy, 1000) {
            again[offset as usize..(offset + len) as usize].fill(1);
            finish(&mut copy, true);
        }
        assert!(again[40..60] == [1; 20] && copy.is_complete());
    }

    #[test]
    fn readings_of_one_place_are_told_apart() {
        let mut copy = StaticCopy::new(100);
        read(&mut copy, 1000);
        finish(&mut copy, true);
        assert!(copy.write_begins(0, 10));
        copy.write_ends(0, 10, false);
        assert!(copy.write_begins(0, 100));
        copy.write_ends(0, 100, false);
        let (long, short) = (copy.next_read(1000).unwrap(), copy.next_read(1000).unwrap());
        assert_eq!((long.offset, long.len, short.offset, short.len), (0, 100, 0, 10));
        assert!(!copy.write_begins(50, 5), "the long one reads it");
        copy.finish(short.number, true);
        copy.write_ends(50, 5, true);
        assert_eq!(read(&mut copy, 1000), Some((50, 5)));
        finish(&mut copy, true);
        assert_eq!(read(&mut copy, 1000), Some((0, 100)), "it was overtaken, whatever else has come");
    }

    #[test]
    fn a_failed_reading_or_write_back_is_repaired() {
        let mut copy = StaticCopy::new(100);
        read(&mut copy, 1000);
        finish(&mut copy, false);
        assert_eq!(read(&mut copy, 1000), Some((0, 100)));
        finish(&mut copy, true);
        assert!(copy.write_begins(90, 10) && copy.is_complete());
        copy.write_ends(90, 10, false);
        assert!(!copy.is_complete());
        assert_eq!(read(&mut copy, 1000), Some((90, 10)));
        finish(&mut copy, false);
        assert_eq!(read(&mut copy, 1000), Some((90, 10)));
    }
}
