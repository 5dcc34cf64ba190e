//! What is watched while an application runs, and what it says about the best place for its communication.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// What a cache fetches at once.
const LINE: u64 = 64;

/// What is watched while an application runs.
#[derive(Default)]
pub struct RunWatch<'a> {
    /// Whether the result is compared with that of a serial run.
    pub is_checked: bool,
    /// Tells how many lines the last-level cache did not have so far, if the processor counts them.
    pub cache_misses: Option<&'a dyn Fn() -> Option<u64>>,
    /// The size of the last-level cache in bytes, for an estimate where nothing is counted.
    pub cache_bytes: Option<u64>,
}

impl RunWatch<'_> {
    pub(crate) fn misses(&self) -> Option<u64> {
        self.cache_misses.and_then(|count| count())
    }
}

/// Accesses to memory that a rank made, in no order that a processor could foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accesses {
    /// How many.
    pub(crate) count: u64,
    /// The size of what was accessed, in bytes.
    pub(crate) bytes: u64,
}

impl Accesses {
    pub(crate) fn new(count: u64, bytes: u64) -> Self {
        Self { count, bytes }
    }

    /// One pass over so many bytes: an access for each line.
    pub(crate) fn pass(bytes: u64) -> Self {
        Self { count: bytes / LINE, bytes }
    }

    /// How many bytes the last-level cache has to fetch for them, when so many ranks share it: it holds what it can, and
    /// every access to the rest fetches a line.
    pub(crate) fn fetched(self, cache_bytes: u64, ranks: u32) -> u64 {
        let all = (self.bytes as f64 * f64::from(ranks)).max(1.0);
        let beyond = (1.0 - cache_bytes as f64 / all).max(0.0);
        (self.count as f64 * beyond) as u64 * LINE
    }
}

/// Bytes of so many lines that the last-level cache did not have.
pub(crate) fn fetched(misses: u64) -> u64 {
    misses.saturating_mul(LINE)
}

/// What was fetched from memory while an application ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryTraffic {
    /// So many bytes.
    pub bytes: u64,
    /// Whether the processor counted them; otherwise they are an estimate from the sizes of tables and of the cache.
    pub is_measured: bool,
}

/// What kind of application it is, by the bytes that it fetches from memory for each byte that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Category {
    /// More is sent than fetched: moving messages is the work.
    CommunicationDominated,
    /// Neither is much more.
    Balanced,
    /// More than twice as much is fetched as sent: work of its own is what it waits for.
    HostDominated,
}

impl Category {
    /// The category of a memory-to-communication ratio; none if everything is within the caches, where the ratio says
    /// nothing of how much else an application does.
    pub fn of(ratio: f64) -> Option<Self> {
        match ratio {
            ..0.01 => None,
            ..1.0 => Some(Self::CommunicationDominated),
            ..=2.0 => Some(Self::Balanced),
            _ => Some(Self::HostDominated),
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::CommunicationDominated => "communication-dominated",
            Self::Balanced => "balanced",
            Self::HostDominated => "host-dominated",
        }
    }
}

/// How long the speed of copying is measured, at least.
const COPY_FOR: Duration = Duration::from_millis(5);
/// What is copied at once, as large as a bundle.
const COPY: usize = 32 << 10;
/// More than the caches of a core hold, as bundles of others are.
const COPY_FROM: usize = 8 << 20;

/// How many bytes this rank copies in a second: the speed of the link between ranks that share memory.
pub(crate) fn copy_rate() -> f64 {
    let (from, mut to) = (vec![1u8; COPY_FROM], vec![0u8; COPY]);
    let (began, mut bytes) = (Instant::now(), 0);
    loop {
        for piece in from.chunks_exact(COPY) {
            to.copy_from_slice(piece);
            std::hint::black_box(&mut to);
        }
        bytes += COPY_FROM;
        let took = began.elapsed();
        if took >= COPY_FOR {
            return bytes as f64 / took.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_cache_holds_is_fetched() {
        let accesses = Accesses::new(1000, 1 << 20);
        assert_eq!(accesses.fetched(1 << 20, 1), 0);
        assert_eq!(accesses.fetched(1 << 20, 2), 500 * 64, "half of two tables");
        assert_eq!(accesses.fetched(0, 1), 64_000);
        assert_eq!(Accesses::new(0, 0).fetched(0, 1), 0);
        assert_eq!(Accesses::pass(6400), Accesses::new(100, 6400));
    }

    #[test]
    fn applications_are_in_the_categories_that_are_known_of_them() {
        use Category::{Balanced, CommunicationDominated, HostDominated};
        let ratios = [0.53, 0.56, 1.5, 2.3, 72.0];
        let kinds = [CommunicationDominated, CommunicationDominated, Balanced, HostDominated, HostDominated];
        assert_eq!(ratios.map(Category::of), kinds.map(Some));
        assert_eq!(Category::of(0.0), None);
    }

    #[test]
    fn copying_has_a_speed() {
        assert!(copy_rate() > 1e6);
    }
}
