//! What a memory server has to give, and how much of it is taken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The bytes that all regions of a server may have together.
#[derive(Debug)]
pub(crate) struct Capacity {
    most: u64,
    used: AtomicU64,
}

impl Capacity {
    pub(super) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, used: AtomicU64::new(0) })
    }

    pub(super) fn most(&self) -> u64 {
        self.most
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    pub(super) fn left(&self) -> u64 {
        self.most.saturating_sub(self.used())
    }

    /// Takes so many bytes, if they are left.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let take = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.most);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Counts bytes that have been taken without asking.
    pub(super) fn was_taken(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }
}

/// How many words of bits are made at once.
const BLOCK: usize = 512;
type Block = [AtomicU64; BLOCK];

/// The least unit in which what was written is counted.
const UNIT_LOG2_MIN: u8 = 16;

/// Which parts of a sparse region were written: they alone take of the capacity.
///
/// Write-backs ask here before they write what was never written before. A process that has the region mapped can write past
/// that, and pays for it in its own control group; what it has taken is counted when it is looked for.
#[derive(Debug)]
pub(super) struct WrittenParts {
    capacity: Arc<Capacity>,
    unit: u64,
    /// Of the region's memory, in bytes.
    len: u64,
    /// A bit for each unit that was written, in blocks that are made when they are needed.
    blocks: Box<[OnceLock<Box<Block>>]>,
    /// The bytes of these units.
    counted: AtomicU64,
    /// What the region has memory for beyond that, as was seen last.
    beyond: AtomicU64,
}

impl WrittenParts {
    /// None yet, of a region of so many bytes that moves in such units.
    pub(super) fn new(capacity: &Arc<Capacity>, len: u64, chunk_log2: u8) -> Self {
        let unit = 1_u64 << chunk_log2.clamp(UNIT_LOG2_MIN, 62);
        let count = len.div_ceil(unit).div_ceil(64 * BLOCK as u64) as usize;
        let blocks = std::iter::repeat_with(OnceLock::new).take(count).collect();
        let (counted, beyond) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { capacity: Arc::clone(capacity), unit, len, blocks, counted, beyond }
    }

    /// How many bytes it takes of the capacity.
    pub(super) fn bytes(&self) -> u64 {
        self.counted.load(Ordering::Acquire) + self.beyond.load(Ordering::Acquire)
    }

    /// Takes room for bytes that are about to be written. Returns false if there is not enough left.
    pub(super) fn take(&self, offset: u64, len: u64) -> bool {
        if len == 0 {
            return true;
        }
        (offset / self.unit..(offset + len).div_ceil(self.unit)).all(|unit| self.take_unit(unit))
    }

    fn take_unit(&self, unit: u64) -> bool {
        if unit * self.unit >= self.len {
            return false;
        }
        let (at, bit) = (unit as usize / 64, 1 << (unit % 64));
        let make = || Box::new([const { AtomicU64::new(0) }; BLOCK]);
        let word = &self.blocks[at / BLOCK].get_or_init(make)[at % BLOCK];
        if word.load(Ordering::Relaxed) & bit != 0 {
            return true;
        }
        let bytes = self.bytes_of(unit);
        if !self.capacity.take(bytes) {
            return false;
        }
        if word.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.counted.fetch_add(bytes, Ordering::AcqRel);
        } else {
            // Another thread was quicker.
            self.capacity.give_back(bytes);
        }
        true
    }

    /// Some bytes were written before the server was started again, whatever the capacity is now.
    pub(super) fn were_written(&self, from: u64, to: u64) {
        let make = || Box::new([const { AtomicU64::new(0) }; BLOCK]);
        for unit in from / self.unit..to.min(self.len).div_ceil(self.unit) {
            let (at, bit) = (unit as usize / 64, 1 << (unit % 64));
            let word = &self.blocks[at / BLOCK].get_or_init(make)[at % BLOCK];
            if word.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
                self.counted.fetch_add(self.bytes_of(unit), Ordering::AcqRel);
                self.capacity.was_taken(self.bytes_of(unit));
            }
        }
    }

    /// Bytes have no memory any more. Units of which all are among them are given back.
    pub(super) fn give_back(&self, offset: u64, len: u64) {
        let end = offset + len;
        let last = if end >= self.len { self.len.div_ceil(self.unit) } else { end / self.unit };
        for unit in offset.div_ceil(self.unit)..last {
            let (at, bit) = (unit as usize / 64, 1 << (unit % 64));
            let Some(block) = self.blocks.get(at / BLOCK) else { return };
            let Some(block) = block.get() else { continue };
            let word = &block[at % BLOCK];
            if word.fetch_and(!bit, Ordering::AcqRel) & bit != 0 {
                let bytes = self.bytes_of(unit);
                self.counted.fetch_sub(bytes, Ordering::AcqRel);
                self.capacity.give_back(bytes);
            }
        }
    }

    /// The region has memory for so many bytes. What is more than was counted was written without asking.
    pub(super) fn see(&self, present: u64) {
        let beyond = present.saturating_sub(self.counted.load(Ordering::Acquire));
        let before = self.beyond.swap(beyond, Ordering::AcqRel);
        self.capacity.was_taken(beyond.saturating_sub(before));
        self.capacity.give_back(before.saturating_sub(beyond));
    }

    fn bytes_of(&self, unit: u64) -> u64 {
        self.unit.min(self.len - unit * self.unit)
    }
}

impl Drop for WrittenParts {
    fn drop(&mut self) {
        self.capacity.give_back(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = 1 << UNIT_LOG2_MIN;

    #[test]
    fn what_is_written_counts_once_and_what_is_discarded_no_more() {
        let capacity = Capacity::new(3 * UNIT);
        let parts = WrittenParts::new(&capacity, 1 << 40, 12);
        assert_eq!((parts.bytes(), capacity.used()), (0, 0));
        assert!(parts.take(5 * UNIT + 1, 1) && parts.take(5 * UNIT, UNIT) && parts.take(0, 0));
        assert_eq!((parts.bytes(), capacity.used()), (UNIT, UNIT));
        // Over an edge.
        assert!(parts.take(8 * UNIT - 1, 2) && capacity.left() == 0);
        assert!(!parts.take((1 << 40) - 1, 1), "none is left");
        assert!(parts.take(7 * UNIT, 2 * UNIT), "it has been counted");
        parts.give_back(7 * UNIT + 4096, UNIT);
        assert_eq!(capacity.left(), 0, "of two units parts are left");
        parts.give_back(7 * UNIT, 2 * UNIT);
        parts.give_back(7 * UNIT, 2 * UNIT);
        assert_eq!(capacity.left(), 2 * UNIT);
        assert!(parts.take((1 << 40) - 1, 1));
        drop(parts);
        assert_eq!(capacity.used(), 0);
    }

    #[test]
    fn the_last_unit_may_be_shorter() {
        let capacity = Capacity::new(UNIT);
        let parts = WrittenParts::new(&capacity, 2 * UNIT + 4096, 20);
        assert_eq!(parts.unit, 1 << 20);
        assert!(!parts.take(0, 1), "one unit is all of the region, which is more than is left");
        let parts = WrittenParts::new(&capacity, 2 * UNIT + 4096, 16);
        assert!(parts.take(2 * UNIT, 4096) && parts.bytes() == 4096);
        assert!(!parts.take(3 * UNIT, 1), "it is not inside");
        parts.give_back(2 * UNIT, 4096);
        assert_eq!(parts.bytes(), 0);
    }

    #[test]
    fn what_was_written_past_it_is_counted_when_it_is_seen() {
        let capacity = Capacity::new(4 * UNIT);
        let parts = WrittenParts::new(&capacity, 1 << 30, 16);
        parts.see(6 * UNIT);
        assert_eq!((parts.bytes(), capacity.used(), capacity.left()), (6 * UNIT, 6 * UNIT, 0));
        assert!(!parts.take(0, 1));
        parts.see(UNIT);
        assert!(parts.take(0, UNIT) && parts.bytes() == 2 * UNIT);
        parts.see(UNIT);
        assert_eq!((parts.bytes(), capacity.used()), (UNIT, UNIT));
    }

    #[test]
    fn threads_that_write_one_unit_count_it_once() {
        let capacity = Capacity::new(64 * UNIT);
        let parts = WrittenParts::new(&capacity, 1 << 30, 16);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..32).for_each(|unit| assert!(parts.take(unit * UNIT, 1))));
            }
        });
        assert_eq!((parts.bytes(), capacity.used()), (32 * UNIT, 32 * UNIT));
    }
}
