//! The layout of a table's region. `functions/kv.c` has it too, so change both.

use crate::{KvError, TableOptions};

const MAGIC: u64 = 0x3430_764b_6274_754f;
/// What is known of the table, and 64 lists of free slots.
const HEADER: u64 = 64 + 64 * 8;
const BUCKET: u64 = 128;
/// What a slot has besides key and value.
const SLOT_HEAD: u64 = 24;
/// The longest slot that functions can fetch.
const SLOT_MAX: u64 = 16 << 10;
/// The longest key.
const KEY_MAX: u64 = 4095;
/// The most keys: numbers of slots have 32 bits.
const KEYS_MAX: u64 = 1 << 31;

/// The shape of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    buckets: u64,
    slots: u64,
    slot_bytes: u64,
    key_max: u64,
    value_max: u64,
}

/// What a slot needs for the longest key and the longest value.
fn slot_needed(key_max: u64, value_max: u64) -> u64 {
    SLOT_HEAD + key_max.next_multiple_of(8) + value_max.next_multiple_of(8)
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
        if key_max == 0 {
            return Err(KvError::NoKey);
        }
        let slot_bytes = slot_needed(key_max, value_max).next_multiple_of(64);
        within("a slot", slot_bytes, SLOT_MAX)?;
        let buckets = keys.div_ceil(2).next_power_of_two();
        Ok(Self { buckets, slots: keys + keys / 16 + 64, slot_bytes, key_max, value_max })
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

    /// The bytes of the longest key.
    pub fn key_max(&self) -> usize {
        self.key_max as usize
    }

    /// The bytes of the longest value.
    pub fn value_max(&self) -> usize {
        self.value_max as usize
    }

    /// The shape in one word, as functions are told it.
    pub(crate) fn shape(&self) -> u64 {
        self.slot_bytes << 8 | u64::from(self.buckets.trailing_zeros())
    }

    /// The header of an empty table. Its first word makes it one, and is written last; its last two are for those who call,
    /// and no function reads them.
    pub(crate) fn header(&self) -> [u64; 8] {
        let Self { buckets, slots, slot_bytes, key_max, value_max } = *self;
        [MAGIC, buckets - 1, slots, slot_bytes, self.slots_at(), 0, key_max, value_max]
    }

    /// The shape of the table that has this header, in a region of so many bytes.
    pub(crate) fn read(header: [u64; 8], region_bytes: u64) -> Option<Self> {
        let [magic, mask, slots, slot_bytes, slots_at, _used, key_max, value_max] = header;
        let is_sane = mask < KEYS_MAX
            && (64..=2 * KEYS_MAX).contains(&slots)
            && slot_bytes.is_multiple_of(64)
            && (64..=SLOT_MAX).contains(&slot_bytes)
            && (mask + 1).is_power_of_two()
            && (1..=KEY_MAX).contains(&key_max)
            && value_max <= SLOT_MAX
            && slot_needed(key_max, value_max) <= slot_bytes;
        if magic != MAGIC || !is_sane {
            return None;
        }
        let layout = Self { buckets: mask + 1, slots, slot_bytes, key_max, value_max };
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
            assert_eq!((layout.key_max() as u64, layout.value_max() as u64), (key_max, value_max));
        }
    }

    #[test]
    fn nonsense_is_no_table() {
        let layout = Layout::new(&TableOptions::default()).unwrap();
        for word in [0, 1, 2, 3, 4, 6, 7] {
            for value in [0, 3, u64::MAX] {
                // A shorter key or value is no nonsense.
                if word > 5 && value == 3 || word == 7 && value == 0 {
                    continue;
                }
                let mut header = layout.header();
                header[word] = value;
                assert_eq!(Layout::read(header, u64::MAX), None, "{word} is {value}");
            }
        }
        let too_large = TableOptions { keys: u64::MAX, ..TableOptions::default() };
        assert!(matches!(Layout::new(&too_large), Err(KvError::TooLarge { .. })));
        let too_long = TableOptions { value_max: u64::MAX, ..TableOptions::default() };
        assert!(matches!(Layout::new(&too_long), Err(KvError::TooLarge { .. })));
        let keyless = TableOptions { key_max: 0, ..TableOptions::default() };
        assert!(matches!(Layout::new(&keyless), Err(KvError::NoKey)));
    }
}
