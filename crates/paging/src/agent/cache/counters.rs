//! The counts of a cache.

use core::ops::AddAssign;

use outboard_wire::paging::{FetchSource, Urgency};

/// How many requests were answered from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The bytes were there.
    pub hits: u64,
    /// The bytes were read ahead, but not early enough: as good as a miss.
    pub late: u64,
    /// The bytes had to be asked for, and are kept.
    pub misses: u64,
    /// The bytes had to be asked for, and are not kept.
    pub uncached: u64,
}

impl Sources {
    pub(crate) fn count(&mut self, source: FetchSource) {
        match source {
            FetchSource::Hit => self.hits += 1,
            FetchSource::Late => self.late += 1,
            FetchSource::Miss => self.misses += 1,
            FetchSource::Uncached => self.uncached += 1,
        }
    }

    /// How many there were in all.
    pub const fn total(&self) -> u64 {
        self.hits + self.late + self.misses + self.uncached
    }

    /// The share of hits; `None` without requests.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.total() > 0).then(|| self.hits as f64 / self.total() as f64)
    }
}

impl AddAssign for Sources {
    fn add_assign(&mut self, other: Self) {
        self.hits += other.hits;
        self.late += other.late;
        self.misses += other.misses;
        self.uncached += other.uncached;
    }
}

/// The counts of a cache so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounters {
    /// Requests that a thread waits for.
    pub demand: Sources,
    /// Requests that applications make ahead of their needs.
    pub background: Sources,
    /// Bytes that were loaded because a request needed them.
    pub demand_bytes: u64,
    /// Bytes that were read ahead of any request.
    pub prefetched_bytes: u64,
    /// Bytes that were read ahead and evicted or dropped before anyone asked for them.
    pub unused_bytes: u64,
    /// Entries that gave way to others.
    pub evictions: u64,
}

impl CacheCounters {
    pub(crate) fn count(&mut self, urgency: Urgency, source: FetchSource) {
        match urgency {
            Urgency::Demand => self.demand.count(source),
            Urgency::Background => self.background.count(source),
        }
    }
}
