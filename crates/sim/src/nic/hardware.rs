//! When things happen at the target.

use super::Parameters;
use super::cache::TranslationCache;

/// The head of an entry in the ring, in bytes.
const ENTRY_HEAD: f64 = 16.0;

/// The target: its NIC, and the processor that drains the ring. Each is busy until some time; what comes later waits.
#[derive(Debug)]
pub(super) struct Target {
    numbers: Parameters,
    page_bytes: u64,
    pub(super) cache: TranslationCache,
    nic_until: f64,
    /// When each of those that fetch translations is free again.
    walkers_until: Vec<f64>,
    processor_until: f64,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Target {
    pub(super) fn new(numbers: Parameters) -> Self {
        let walkers = (numbers.walkers.round() as usize).max(1);
        Self {
            cache: TranslationCache::new(numbers.entries as usize, (numbers.ways.round() as usize).max(1)),
            page_bytes: (numbers.page_bytes as u64).max(1),
            numbers,
            nic_until: 0.0,
            walkers_until: vec![0.0; walkers],
            processor_until: 0.0,
            hits: 0,
            misses: 0,
        }
    }

    fn page(&self, offset: u64) -> u64 {
        offset / self.page_bytes
    }

    /// Whether the translation of the page at `offset` is at hand, and which page would have to leave if not.
    pub(super) fn looks(&self, offset: u64) -> (bool, Option<u64>) {
        let page = self.page(offset);
        let victim = self.cache.victim(page).map(|victim| victim * self.page_bytes);
        (self.cache.has(page), victim)
    }

    /// A message arrives that was sent at `now`: the time at which the NIC is through with it.
    fn arrive(&mut self, now: f64, bytes: f64) -> f64 {
        let begins = self.nic_until.max(now + self.numbers.round_trip / 2.0);
        self.nic_until = begins + self.numbers.per_message + bytes * self.numbers.per_byte;
        self.nic_until
    }

    /// A one-sided write that is sent at `now`: when its acknowledgement is back.
    pub(super) fn offload(&mut self, now: f64, offset: u64, len: u64) -> f64 {
        let arrived = self.arrive(now, len as f64);
        let pages = self.page(offset)..=self.page(offset + len.saturating_sub(1));
        let mut done = arrived;
        for page in pages {
            if self.cache.use_page(page) {
                self.hits += 1;
                continue;
            }
            self.misses += 1;
            // Translations of one write are fetched side by side, as far as there are units to fetch them.
            let walker = self.walkers_until.iter_mut().min_by(|one, other| one.total_cmp(other));
            if let Some(until) = walker {
                *until = until.max(arrived) + self.numbers.walk();
                done = done.max(*until);
            }
        }
        done + self.numbers.round_trip / 2.0
    }

    /// A batch of entries that is sent at `now`: when the acknowledgement of all of them is back.
    pub(super) fn unload(&mut self, now: f64, lengths: &[u64]) -> f64 {
        let bytes: f64 = lengths.iter().map(|len| *len as f64 + ENTRY_HEAD).sum();
        let arrived = self.arrive(now, bytes);
        let numbers = self.numbers;
        let mut busy = self.processor_until.max(arrived + numbers.notice);
        for len in lengths {
            busy += numbers.per_entry + *len as f64 * numbers.copy_per_byte;
        }
        self.processor_until = busy + numbers.acknowledge;
        self.processor_until + numbers.round_trip / 2.0
    }
}
