//! Which chunks of a region are known to be zero at their memory server: those that were never written, or discarded.
//!
//! Only a process that leases the region as its writer ever knows: of one that it has reserved itself, that no process has written
//! it; of chunks that it has discarded, that no process has written them since. Such a chunk is never asked for.
//!
//! Nor does the server have memory for it. Who touches shared memory first is charged for it by the control group: a chunk
//! that is written for the first time is therefore sent to the server as a message, all of it, so that the server touches it.
//! Afterwards it may be written where it is mapped.

use std::sync::atomic::{AtomicU64, Ordering};

use outboard_wire::mutant;
use zerocopy::FromZeros;

/// The chunks of a region that are zero at the server.
#[derive(Debug)]
pub(super) struct Blanks {
    /// A bit for each chunk of which the server may have something; none where the region can only be read.
    written: Box<[AtomicU64]>,
    /// A bit for each chunk all of which the server has touched, as is known here.
    founded: Box<[AtomicU64]>,
    /// A bit for each chunk that a thread has touched while it was blank.
    touched: Box<[AtomicU64]>,
    /// How many of these there are.
    touches: AtomicU64,
}

/// A word without bits for every 64 chunks. The system has no memory for words that are never used, so that a region of many TiB
/// costs little.
fn words(count: usize) -> Box<[AtomicU64]> {
    <[AtomicU64]>::new_box_zeroed_with_elems(count).expect("there is memory for a bit for each chunk")
}

impl Blanks {
    /// Of so many chunks: all if the region is fresh, else those that are discarded, which only a writer does.
    pub(super) fn new(chunks: u32, is_writable: bool, is_fresh: bool) -> Self {
        let count = if is_writable { (chunks as usize).div_ceil(64) } else { 0 };
        let [written, founded, touched] = [words(count), words(count), words(count)];
        if !is_fresh {
            written.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        }
        Self { written, founded, touched, touches: AtomicU64::new(0) }
    }

    /// A blank chunk comes here, as zeros.
    pub(super) fn touch(&self, index: u32) {
        let bit = 1 << (index % 64);
        if let Some(word) = self.touched.get(index as usize / 64)
            && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            self.touches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a chunk was touched since it was blank last, or may have been written before.
    pub(super) fn is_touched(&self, index: u32) -> bool {
        let word = self.touched.get(index as usize / 64);
        !self.has(index) || word.is_some_and(|word| word.load(Ordering::Relaxed) >> (index % 64) & 1 == 1)
    }

    /// How many chunks were touched that were blank, and are not again.
    pub(super) fn touches(&self) -> u64 {
        self.touches.load(Ordering::Relaxed)
    }

    /// Whether the server has nothing but zeros of a chunk.
    pub(super) fn has(&self, index: u32) -> bool {
        let word = self.written.get(index as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (index % 64) & 1 == 0)
    }

    /// The server has nothing but zeros of a chunk from now on.
    pub(super) fn insert(&self, index: u32) {
        if let Some(word) = self.written.get(index as usize / 64) {
            let (bit, clear) = (1 << (index % 64), |word: &AtomicU64, bit: u64| {
                // Most chunks of a long span were never used, and their words need no memory.
                if word.load(Ordering::Relaxed) & bit == 0 {
                    return false;
                }
                word.fetch_and(!bit, Ordering::Relaxed) & bit != 0
            });
            clear(word, bit);
            clear(&self.founded[index as usize / 64], bit);
            if clear(&self.touched[index as usize / 64], bit) {
                self.touches.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Whether the server is known to have memory for all of a chunk.
    pub(super) fn is_founded(&self, index: u32) -> bool {
        let word = self.founded.get(index as usize / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (index % 64) & 1 == 1)
    }

    /// The server has touched all of a chunk.
    pub(super) fn found(&self, index: u32) {
        if let Some(word) = self.founded.get(index as usize / 64) {
            word.fetch_or(1 << (index % 64), Ordering::Relaxed);
        }
    }

    /// Bytes of a chunk are sent to the server.
    pub(super) fn remove(&self, index: u32) {
        if let Some(word) = self.written.get(index as usize / 64)
            && !mutant("paging.written-taken-for-blank")
        {
            word.fetch_or(1 << (index % 64), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_sent_is_known_to_be_zero() {
        let blanks = Blanks::new(130, true, true);
        assert!((0..130).all(|index| blanks.has(index)) && !blanks.has(200));
        blanks.remove(64);
        blanks.remove(129);
        assert!((0..130).all(|index| blanks.has(index) != [64, 129].contains(&index)));
    }

    #[test]
    fn what_was_discarded_has_no_memory_either() {
        let blanks = Blanks::new(130, true, false);
        assert!(!blanks.is_founded(3));
        blanks.found(3);
        blanks.found(129);
        blanks.insert(3);
        assert!(!blanks.is_founded(3) && blanks.is_founded(129) && !blanks.is_founded(200));
    }

    #[test]
    fn what_was_touched_is_counted_until_it_is_discarded() {
        let blanks = Blanks::new(130, true, true);
        [3, 3, 129].iter().for_each(|index| blanks.touch(*index));
        assert!(blanks.touches() == 2 && blanks.is_touched(129) && !blanks.is_touched(4));
        blanks.remove(4);
        assert!(blanks.is_touched(4));
        [3, 3, 4].iter().for_each(|index| blanks.insert(*index));
        assert!(blanks.touches() == 1 && !blanks.is_touched(3) && !blanks.is_touched(4));
    }

    #[test]
    fn what_was_discarded_is_known_to_be_zero() {
        let blanks = Blanks::new(130, true, false);
        blanks.insert(70);
        assert!((0..130).all(|index| blanks.has(index) == (index == 70)));
        blanks.remove(70);
        assert!(!blanks.has(70));
        // Of what can only be read nothing is known.
        let readers = Blanks::new(130, false, false);
        readers.insert(5);
        readers.remove(5);
        assert!(!readers.has(5));
    }
}
