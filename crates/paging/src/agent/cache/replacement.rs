//! Which entry gives way to a new one.
//!
//! The entry goes whose next use is expected last, among a few that are drawn at random (so a hit maintains no
//! list). What is expected follows from how an entry was used. Time is counted in entries that came in.
//!
//! | entry | expected |
//! |---|---|
//! | read ahead, or visited a moment ago | now |
//! | came back after some time before | after as much time again |
//! | visited once | later than all of these; the newest last |
//! | read ahead in vain, or not seen for very long | never |
//!
//! That the newest of those visited once goes first makes the cache *keep a part* of a region that is read again and
//! again and does not fit: recency would evict every entry just before it is needed. Entries that were evicted
//! leave a trace, so one that comes back is known to come back. The test `traces` compares this with random eviction
//! and with CLOCK:
//!
//! | trace, cache of 64 entries | random | CLOCK | this |
//! |---|---|---|---|
//! | the same 96 entries again and again | 0.41 | 0.00 | 0.55 |
//! | the same 256 entries again and again | 0.02 | 0.00 | 0.19 |
//! | any of 128 entries | 0.20 | 0.22 | 0.25 |
//! | 1024 entries, some more popular | 0.23 | 0.37 | 0.45 |
//! | 256 entries, some more popular, beside a scan | 0.18 | 0.26 | 0.34 |
//! | any of 48 entries, others after a while | 0.97 | 0.97 | 0.97 |
//! | 128 entries again and again, by two, one behind the other | 0.58 | 0.50 | 0.69 |

use super::entry::{Entry, EntryKey, Tenancy};

/// How many entries are looked at for a victim.
const SAMPLES: usize = 16;

/// When an entry was used, counted in entries that came in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    last_touch: u64,
    visited_at: u64,
    /// The time between two visits, if there was more than one.
    interval: Option<u64>,
}

/// How far away the next use of an entry seems to be. Larger goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Distance {
    /// So many entries from now, by experience.
    Expected(u64),
    /// Unknown; of two such entries the younger goes.
    Unknown { youth: u64 },
    /// Not worth its place.
    Hopeless { age: u64 },
}

/// Chooses victims.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    /// How many entries have come in.
    time: u64,
    slots: u64,
    random: u64,
    /// Where an evicted entry leaves the time of its last visit, by the hash of its key.
    traces: Vec<(u64, u64)>,
}

impl Replacement {
    pub(crate) fn new(slots: u32) -> Self {
        let traces = vec![(0, 0); (slots as usize * 8).next_power_of_two()];
        Self { time: 1, slots: slots.into(), random: 0x9e37_79b9_7f4a_7c15, traces }
    }

    /// How long an entry is left in peace after it came or was touched.
    fn grace(&self) -> u64 {
        self.slots / 16 + 1
    }

    /// How long an entry that no application came back to is kept in case that one does.
    fn tenure(&self) -> u64 {
        self.slots * 8
    }

    /// An entry comes in.
    pub(crate) fn admit(&mut self, key: EntryKey) -> Usage {
        self.time += 1;
        let hash = hash(key);
        let (known, visited_at) = self.traces[hash as usize & (self.traces.len() - 1)];
        let interval = (known == hash).then(|| self.time - visited_at);
        Usage { last_touch: self.time, visited_at: self.time, interval }
    }

    /// An entry goes.
    pub(crate) fn dismiss(&mut self, key: EntryKey, usage: &Usage) {
        let hash = hash(key);
        let place = hash as usize & (self.traces.len() - 1);
        self.traces[place] = (hash, usage.visited_at);
    }

    /// An entry is used. What follows within a moment belongs to the same visit: several threads, or processes that
    /// go the same way. Returns whether a new visit begins.
    pub(crate) fn touch(&self, usage: &mut Usage) -> bool {
        let is_visit = self.time - usage.last_touch > self.grace();
        usage.last_touch = self.time;
        if is_visit {
            let interval = self.time - usage.visited_at;
            usage.interval = Some(usage.interval.map_or(interval, |before| before.midpoint(interval)));
            usage.visited_at = self.time;
        }
        is_visit
    }

    /// The entry that may go: for a request the best of all, for reading ahead only one that no application is known to need
    /// before what is read ahead, which is soon.
    pub(crate) fn victim(&mut self, entries: &[Entry], is_ahead: bool) -> Option<usize> {
        let drawn: [usize; SAMPLES] = core::array::from_fn(|_| self.draw(entries.len()));
        let judge = |index: usize| Some((self.distance(entries.get(index)?)?, index));
        let best = drawn.into_iter().filter_map(judge).max();
        // Nearly everything is in use: look at all.
        let best = best.or_else(|| (0..entries.len()).filter_map(judge).max());
        let soon = Distance::Expected(2 * self.grace());
        best.filter(|(distance, _)| !is_ahead || *distance > soon).map(|(_, index)| index)
    }

    fn distance(&self, entry: &Entry) -> Option<Distance> {
        let is_movable = entry.pins == 0 && matches!(entry.tenancy, Tenancy::Resident(_));
        is_movable.then(|| {
            let age = self.time - entry.usage.last_touch;
            let is_awaited = entry.touched.is_empty();
            match entry.usage.interval {
                _ if is_awaited && age <= 4 * self.grace() => Distance::Expected(0),
                _ if is_awaited => Distance::Hopeless { age },
                _ if age <= self.grace() => Distance::Expected(0),
                Some(interval) if age <= 4 * interval + self.grace() => {
                    Distance::Expected(interval.abs_diff(age))
                }
                _ if age <= self.tenure() => Distance::Unknown { youth: u64::MAX - age },
                _ => Distance::Hopeless { age },
            }
        })
    }

    /// A number below `bound` (xorshift64*): chance without a source of its own, so that runs can be repeated.
    fn draw(&mut self, bound: usize) -> usize {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let drawn = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((drawn * bound as u64) >> 32) as usize
    }
}

/// Spreads keys evenly; the finaliser of MurmurHash3.
fn hash(key: EntryKey) -> u64 {
    let mut hash = key.entry ^ (u64::from(key.region) << 48) ^ 0x9e37_79b9_7f4a_7c15;
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}
