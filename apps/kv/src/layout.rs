//! Where what lies in the region of a table; `functions/kv.c` says the same.

use crate::{KvError, TableOptions};

const MAGIC: u64 = 0x3330_764b_6274_754f;
/// What is known of the table, and 64 lists of free slots.
const HEADER: u64 = 64 + 64 * 8;
const BUCKET: u64 = 128;
/// What a slot has besides key and value.
const SLOT_HEAD: u64 = 24;
/// The longest slot that functions can fetch.
const SLOT_MAX: u64 = 16 << 10;
/// The longest key.
pub(crate) const KEY_MAX: u64 = 4095;
/// The most keys: numbers of slots have 32 bits.
const KEYS_MAX: u64 = 1 << 31;

/// The shape of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    buckets: u64,
    slots: u64,
    slot_bytes: u64,
}

impl Layout {
    /// For so many keys. A bucket has 15 places and on average two keys at most, so that one overflows for one table in
    /// thousands; slots are a few more than keys, for values that are being replaced.
    pub fn new(options: &TableOptions) -> Result<Self, KvError> {
        let TableOptions { keys, key_max, value_max } = *options;
        let within = |what, value, max| {
            if value > max { Err(KvError::TooLarge { what, value, max }) } else { Ok(()) }
        };
        within("keys", keys, KEYS_MAX)?;
        within("a longest key", key_max, KEY_MAX)?;
        within("a longest value", value_max, SLOT_MAX)?;
        let needed = SLOT_HEAD + key_max.next_multiple_of(8) + value_max.next_multiple_of(8);
        let slot_bytes = needed.next_multiple_of(64);
        within("a slot", slot_bytes, SLOT_MAX)?;
        let buckets = keys.div_ceil(2).next_power_of_two();
        Ok(Self { buckets, slots: keys + keys / 16 + 64, slot_bytes })
    }

    /// Where slots begin.
    pub fn slots_at(&self) -> u64 {
        HEADER + self.buckets * BUCKET
    }

    /// The bytes of the whole table.
    pub fn size(&self) -> u64 {
        self.slots_at() + self.slots * self.slot_bytes
    }

    /// How many buckets there are: a power of two.
    pub fn buckets(&self) -> u64 {
        self.buckets
    }

    /// How many slots there are.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// The bytes of a slot.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// What a key and a value may have together, each rounded up to 8 bytes.
    pub fn both_max(&self) -> usize {
        (self.slot_bytes - SLOT_HEAD) as usize
    }

    /// The shape in one word, as functions are told it.
    pub(crate) fn shape(&self) -> u64 {
        self.slot_bytes << 8 | u64::from(self.buckets.trailing_zeros())
    }

    /// The header of an empty table. Its first word makes it one, and is written last.
    pub(crate) fn header(&self) -> [u64; 8] {
        [MAGIC, self.buckets - 1, self.slots, self.slot_bytes, self.slots_at(), 0, 0, 0]
    }

    /// The shape of the table that has this header, in a region of so many bytes.
    pub(crate) fn read(header: [u64; 8], region_bytes: u64) -> Option<Self> {
        let [magic, mask, slots, slot_bytes, slots_at, ..] = header;
        let is_sane = mask < KEYS_MAX
            && (64..=2 * KEYS_MAX).contains(&slots)
            && slot_bytes.is_multiple_of(64)
            && (64..=SLOT_MAX).contains(&slot_bytes)
            && (mask + 1).is_power_of_two();
        if magic != MAGIC || !is_sane {
            return None;
        }
        let layout = Self { buckets: mask + 1, slots, slot_bytes };
        (layout.slots_at() == slots_at && layout.size() <= region_bytes).then_some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_is_read_as_it_was_written() {
        for (keys, key_max, value_max) in [(0, 1, 0), (1, 8, 8), (1000, 16, 100), (1 << 20, 4095, 1000)] {
            let layout = Layout::new(&TableOptions { keys, key_max, value_max }).unwrap();
            assert_eq!(Layout::read(layout.header(), layout.size()), Some(layout));
            assert_eq!(Layout::read(layout.header(), layout.size() - 1), None);
            assert!(layout.both_max() as u64 >= key_max + value_max);
        }
    }

    #[test]
    fn nonsense_is_no_table() {
        let layout = Layout::new(&TableOptions::default()).unwrap();
        for word in 0..5 {
            for value in [0, 3, u64::MAX] {
                let mut header = layout.header();
                header[word] = value;
                assert_eq!(Layout::read(header, u64::MAX), None, "{word} is {value}");
            }
        }
        let too_large = TableOptions { keys: u64::MAX, ..TableOptions::default() };
        assert!(matches!(Layout::new(&too_large), Err(KvError::TooLarge { .. })));
        let too_long = TableOptions { value_max: u64::MAX, ..TableOptions::default() };
        assert!(matches!(Layout::new(&too_long), Err(KvError::TooLarge { .. })));
    }
}
