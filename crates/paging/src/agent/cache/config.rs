//! The settings of a page cache.

use core::fmt;

use super::pieces::PIECES_MAX;

/// The settings of a page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// How many entries fit; default 256. About 400 bytes of tables for each, besides its bytes.
    pub slots: u32,
    /// The size of an entry as a power of two, from 12 to 24; default 20, which is 1 MiB.
    pub entry_log2: u8,
    /// How many regions are known at once; default 1024, some 300 bytes each.
    pub regions_max: u32,
    /// The settings of reading ahead.
    pub prefetch: PrefetchConfig,
}

/// The settings of reading ahead of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchConfig {
    /// How many entries ahead of a movement at most; default 8. Zero reads nothing ahead.
    pub depth_max: u32,
    /// How many bytes may be on their way ahead of their requests; default 1 MiB. A request that finds nothing
    /// waits for what is on its way before it.
    pub in_flight_max: u64,
    /// How many bytes one reading ahead asks for; default 256 KiB. Less arrives sooner, more costs fewer operations.
    pub read_max: u32,
    /// Nothing is read ahead while more loads than this are awaited by requests; default 64: a movement whose
    /// requests come in bursts would never get ahead of them if it had to wait until none is awaited.
    pub demand_max: u32,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self { slots: 256, entry_log2: 20, regions_max: 1024, prefetch: PrefetchConfig::default() }
    }
}

impl Default for PrefetchConfig {
    fn default() -> Self {
        Self { depth_max: 8, in_flight_max: 1 << 20, read_max: 256 << 10, demand_max: 64 }
    }
}

/// The smallest entry, as a power of two.
pub const ENTRY_LOG2_MIN: u8 = 12;
/// The largest entry, as a power of two.
pub const ENTRY_LOG2_MAX: u8 = 24;

/// A piece is never larger than this, as a power of two: what is asked for on demand stays small.
const PIECE_LOG2_MAX: u8 = 16;

impl CacheConfig {
    /// The size of an entry in bytes.
    pub const fn entry_bytes(&self) -> u64 {
        1 << self.entry_log2
    }

    /// The unit in which entries of a region with chunks of this size are filled, as a power of two: the chunk, so
    /// that no request loads more than it asks for, but at most 64 KiB, and not so small that an entry would have
    /// more than 256 of them.
    pub(crate) fn piece_log2(&self, chunk_log2: u8) -> u8 {
        let smallest = self.entry_log2.saturating_sub(PIECES_MAX.ilog2() as u8);
        chunk_log2.min(PIECE_LOG2_MAX).max(smallest).min(self.entry_log2)
    }
}

/// How an agent passes on what has to be asked of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forwarding {
    /// One request at a time: the next begins when the one before is done.
    Serial,
    /// The requests that have arrived form a batch, whose requests go out merged and in parallel; the next batch begins when this
    /// one is done.
    Batched,
    /// As batched, but nothing waits for what went before.
    #[default]
    Pipelined,
}

impl Forwarding {
    /// Every way, from the simplest to the fastest.
    pub const ALL: [Self; 3] = [Self::Serial, Self::Batched, Self::Pipelined];
}

impl fmt::Display for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Serial => "serial",
            Self::Batched => "batched",
            Self::Pipelined => "pipelined",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_chunks_within_limits() {
        let config = CacheConfig::default();
        assert_eq!([12, 16, 21].map(|chunk| config.piece_log2(chunk)), [12, 16, 16]);
        let large = CacheConfig { entry_log2: 24, ..config };
        assert_eq!([12, 20].map(|chunk| large.piece_log2(chunk)), [16, 16]);
        let small = CacheConfig { entry_log2: 12, ..config };
        assert_eq!([12, 16].map(|chunk| small.piece_log2(chunk)), [12, 12]);
    }
}
