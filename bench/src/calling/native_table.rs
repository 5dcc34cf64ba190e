//! The table of `apps/kv` in Rust: the same layout, the same steps, the same checks, without eBPF.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outboard_kv::Layout;
use outboard_link::memory::Segment;

use crate::BenchError;
use crate::error::Named;

const HEADER_WORDS: usize = 8;
const USED: usize = 5;
const FREE: usize = 6;
const BUCKET_WORDS: usize = 16;
const HALF: usize = BUCKET_WORDS / 2;
const SLOT_HEAD_WORDS: usize = 3;

const BUSY: u64 = 1 << 63;
const PLACE_SHIFT: u32 = 56;
const SLOT_BITS: u64 = 0x000f_ffff_ffff_ffff;
const NO_TAG: u64 = 0xfff;
const TAG_SHIFT: u32 = 52;

/// What functions return.
pub(super) const DONE: u64 = 0;
const NOT_FOUND: u64 = 1;
const NO_ROOM: u64 = 2;
const BUSY_TABLE: u64 = 3;
pub(super) const BAD_ARGUMENTS: u64 = 4;

const TRIES: usize = 64;

fn key_length(head: u64) -> u64 {
    head >> 32 & 0xfff
}

fn value_length(head: u64) -> u64 {
    head & 0xffff_ffff
}

fn generation(head: u64) -> u64 {
    head >> 44
}

#[inline]
fn mix(state: u64, word: u64) -> u64 {
    let state = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    state ^ state >> 32
}

/// Two sums at a time: each word waits for the one before.
#[derive(Clone, Copy)]
struct Sum {
    lanes: [u64; 2],
}

impl Sum {
    #[inline]
    fn new(head: u64, hash: u64) -> Self {
        Self { lanes: [mix(1, head), mix(2, hash)] }
    }

    /// Adds the word of this number.
    #[inline]
    fn add(&mut self, number: usize, word: u64) {
        let lane = &mut self.lanes[number % 2];
        *lane = mix(*lane, word);
    }

    #[inline]
    fn end(self) -> u64 {
        mix(self.lanes[0], self.lanes[1])
    }
}

fn tag_of(hash: u64) -> u64 {
    (hash >> TAG_SHIFT).min(NO_TAG - 1)
}

/// A table in memory of its own, of the kind that memory servers have.
pub(super) struct NativeTable {
    memory: Arc<Segment>,
    mask: u64,
    slots: u64,
    slot_words: usize,
    slots_at: usize,
}

/// What is looked for: the words of a slot in which nothing but key and value is filled in.
pub(super) struct Wanted<'a> {
    words: &'a mut [u64],
    hash: u64,
    key_words: usize,
}

impl<'a> Wanted<'a> {
    /// Reads the arguments of a call.
    #[inline]
    pub(super) fn read(words: &'a mut [u64], slot_words: usize) -> Option<Self> {
        let head = *words.first()?;
        let key_words = key_length(head).div_ceil(8) as usize;
        let all = SLOT_HEAD_WORDS + key_words + value_length(head).div_ceil(8) as usize;
        if key_words == 0 || generation(head) != 0 || all > slot_words || all > words.len() {
            return None;
        }
        let key = &words[SLOT_HEAD_WORDS..SLOT_HEAD_WORDS + key_words];
        let hash = key.iter().fold(key_length(head), |hash, word| mix(hash, *word));
        let hash = mix(hash, hash >> 29);
        Some(Self { words: &mut words[..all], hash, key_words })
    }

    fn key(&self) -> &[u64] {
        &self.words[SLOT_HEAD_WORDS..SLOT_HEAD_WORDS + self.key_words]
    }
}

enum Compared {
    Same,
    Other,
    Changed,
}

impl NativeTable {
    pub(super) fn new(layout: &Layout) -> Result<Self, BenchError> {
        let memory =
            Arc::new(Segment::create(c"outboard-bench-table", layout.size() as usize).named("mmap")?);
        // As the server's table does.
        memory.populate().named("madvise")?;
        let (mask, slots) = (layout.buckets() - 1, layout.slots());
        let (slot_words, slots_at) = (layout.slot_bytes() as usize / 8, layout.slots_at() as usize / 8);
        Ok(Self { memory, mask, slots, slot_words, slots_at })
    }

    pub(super) fn slot_words(&self) -> usize {
        self.slot_words
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the segment is mapped as long as it lives, begins at a page and is only ever used by atomic words here.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr().cast(), self.memory.len() / 8) }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        HEADER_WORDS + (hash & self.mask) as usize * BUCKET_WORDS
    }

    #[inline]
    fn slot(&self, entry: u64) -> usize {
        self.slots_at + (entry & 0xffff_ffff) as usize * self.slot_words
    }

    /// Compares the slot that an entry names, and leaves its words in `found`.
    #[inline]
    fn compare(&self, wanted: &Wanted<'_>, entry: u64, found: &mut Vec<u64>) -> Compared {
        let at = self.slot(entry);
        let Some(slot) = self.words().get(at..at + self.slot_words) else { return Compared::Changed };
        let head = slot[0].load(Ordering::Relaxed);
        let words = key_length(head).div_ceil(8) as usize + value_length(head).div_ceil(8) as usize;
        if generation(head) != entry >> 32 & 0xf_ffff || words > self.slot_words - SLOT_HEAD_WORDS {
            return Compared::Changed;
        }
        let (expected, hash) = (slot[1].load(Ordering::Relaxed), slot[2].load(Ordering::Relaxed));
        found.clear();
        found.push(head);
        let mut sum = Sum::new(head, hash);
        for (number, word) in slot[SLOT_HEAD_WORDS..SLOT_HEAD_WORDS + words].iter().enumerate() {
            let word = word.load(Ordering::Relaxed);
            sum.add(number, word);
            found.push(word);
        }
        std::sync::atomic::fence(Ordering::Acquire);
        if sum.end() != expected {
            return Compared::Changed;
        }
        let is_same = hash == wanted.hash
            && key_length(head) == key_length(wanted.words[0])
            && found[1..=wanted.key_words] == *wanted.key();
        if is_same { Compared::Same } else { Compared::Other }
    }

    /// The place of a key among words of its bucket, which begin with a place that holds no entry if `first` is one: none if
    /// it is not there; an error if a slot was changed meanwhile.
    #[inline]
    fn find(
        &self,
        wanted: &Wanted<'_>,
        (words, first): (&[u64], usize),
        found: &mut Vec<u64>,
    ) -> Result<Option<usize>, ()> {
        let tag = tag_of(wanted.hash);
        for (place, entry) in words.iter().copied().enumerate().skip(first) {
            if entry == 0 || entry >> TAG_SHIFT != tag {
                continue;
            }
            match self.compare(wanted, entry, found) {
                Compared::Same => return Ok(Some(place)),
                Compared::Other => {}
                Compared::Changed => return Err(()),
            }
        }
        Ok(None)
    }

    #[inline]
    fn read_bucket<const LEN: usize>(&self, at: usize) -> [u64; LEN] {
        let words = &self.words()[at..at + LEN];
        std::array::from_fn(|index| words[index].load(Ordering::Acquire))
    }

    /// Appends the value of a key to `reply`.
    #[inline]
    pub(super) fn get(&self, wanted: &Wanted<'_>, found: &mut Vec<u64>, reply: &mut Vec<u8>) -> u64 {
        for _ in 0..TRIES {
            let at = self.bucket(wanted.hash);
            // Most buckets have few keys, in their first half.
            let half: [u64; HALF] = self.read_bucket(at);
            let mut place = self.find(wanted, (&half, 1), found);
            if place == Ok(None) && half[HALF - 1] != 0 {
                let half: [u64; HALF] = self.read_bucket(at + HALF);
                place = self.find(wanted, (&half, 0), found);
            }
            match place {
                Ok(None) => return NOT_FOUND,
                Err(()) => continue,
                Ok(Some(_)) => {}
            }
            let before = reply.len();
            for word in &found[1 + wanted.key_words..] {
                reply.extend_from_slice(&word.to_le_bytes());
            }
            reply.truncate(before + value_length(found[0]) as usize);
            return DONE;
        }
        BUSY_TABLE
    }

    fn allocate(&self) -> Option<u64> {
        let words = self.words();
        loop {
            let first = words[FREE].load(Ordering::SeqCst);
            let Some(number) = (first & 0xffff_ffff).checked_sub(1) else {
                let fresh = words[USED].fetch_add(1, Ordering::SeqCst);
                return (fresh < self.slots).then_some(1 << 32 | fresh);
            };
            let at = self.slot(number);
            let (head, next) = (words[at].load(Ordering::Acquire), words[at + 1].load(Ordering::Acquire));
            let changed = ((first >> 32).wrapping_add(1)) << 32 | next & 0xffff_ffff;
            if words[FREE].compare_exchange(first, changed, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                let last = generation(head);
                return Some((if last == 0xf_ffff { 1 } else { last + 1 }) << 32 | number);
            }
        }
    }

    fn give_back(&self, slot: u64) {
        let words = self.words();
        let number = slot & 0xffff_ffff;
        loop {
            let first = words[FREE].load(Ordering::SeqCst);
            words[self.slot(number) + 1].store(first & 0xffff_ffff, Ordering::Release);
            let changed = ((first >> 32).wrapping_add(1)) << 32 | (number + 1);
            if words[FREE].compare_exchange(first, changed, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return;
            }
        }
    }

    /// Gives a key a value.
    pub(super) fn put(&self, wanted: &mut Wanted<'_>, found: &mut Vec<u64>) -> u64 {
        let Some(slot) = self.allocate() else { return NO_ROOM };
        wanted.words[0] |= (slot >> 32) << 44;
        wanted.words[2] = wanted.hash;
        let mut sum = Sum::new(wanted.words[0], wanted.hash);
        for (number, word) in wanted.words[SLOT_HEAD_WORDS..].iter().enumerate() {
            sum.add(number, *word);
        }
        wanted.words[1] = sum.end();
        let at = self.slot(slot);
        for (index, word) in wanted.words.iter().enumerate() {
            self.words()[at + index].store(*word, Ordering::Relaxed);
        }
        std::sync::atomic::fence(Ordering::Release);
        let result = self.change(wanted, slot, found);
        if result != DONE {
            self.give_back(slot);
        }
        result
    }

    fn change(&self, wanted: &Wanted<'_>, slot: u64, found: &mut Vec<u64>) -> u64 {
        let at = self.bucket(wanted.hash);
        let words = self.words();
        let swap = |at: usize, from: u64, to: u64| {
            words[at].compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        for _ in 0..TRIES {
            let bucket: [u64; BUCKET_WORDS] = self.read_bucket(at);
            // No other thread changes this table: none needs help.
            let (intent, Ok(place)) = (bucket[0], self.find(wanted, (&bucket, 1), found)) else { continue };
            let is_free = |(_, entry): &(usize, &u64)| **entry == 0 || **entry >> TAG_SHIFT == NO_TAG;
            let free = || bucket.iter().enumerate().skip(1).find(is_free).map(|(place, _)| place);
            let Some(target) = place.or_else(free) else { return NO_ROOM };
            let announced = BUSY | (target as u64) << PLACE_SHIFT | slot & SLOT_BITS;
            if !swap(at, intent, announced) {
                continue;
            }
            let entry = tag_of(wanted.hash) << TAG_SHIFT | slot & SLOT_BITS;
            swap(at + target, bucket[target], entry);
            swap(at, announced, announced & !BUSY);
            if place.is_some() {
                self.give_back(bucket[target]);
            }
            return DONE;
        }
        BUSY_TABLE
    }
}

#[cfg(test)]
mod tests {
    use outboard_kv::TableOptions;

    use super::*;

    /// The arguments of a call as words.
    fn arguments(key: u64, value: &[u64]) -> Vec<u64> {
        let mut words = vec![(8 << 32) | (value.len() as u64 * 8), 0, 0, key];
        words.extend_from_slice(value);
        words
    }

    #[test]
    fn what_is_put_is_found_and_replaced() {
        let layout = Layout::new(&TableOptions { keys: 1000, key_max: 8, value_max: 16 }).unwrap();
        let table = NativeTable::new(&layout).unwrap();
        let mut found = Vec::new();
        for turn in 0..20u64 {
            for key in 0..1000u64 {
                let mut words = arguments(key, &[key, turn]);
                let mut wanted = Wanted::read(&mut words, table.slot_words()).unwrap();
                assert_eq!(table.put(&mut wanted, &mut found), DONE);
            }
        }
        for key in 0..1100u64 {
            let (mut words, mut reply) = (arguments(key, &[]), Vec::new());
            let wanted = Wanted::read(&mut words, table.slot_words()).unwrap();
            let result = table.get(&wanted, &mut found, &mut reply);
            if key < 1000 {
                assert_eq!((result, reply), (DONE, [key, 19].map(u64::to_le_bytes).concat()));
            } else {
                assert_eq!(result, NOT_FOUND);
            }
        }
        assert!(Wanted::read(&mut arguments(1, &[0; 100]), table.slot_words()).is_none());
        assert!(Wanted::read(&mut [], table.slot_words()).is_none());
    }
}
