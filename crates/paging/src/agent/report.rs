//! The counts of an agent's paging, for the code that shows them.

use std::sync::atomic::{AtomicU64, Ordering};

use outboard_wire::paging::CacheMode;

use super::cache::{ByteRate, CacheCounters, RegionIdentity, Sources, SwitchReport};

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(super) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts that workers keep without the lock.
#[derive(Debug, Default)]
pub(super) struct ReportCounts {
    pub(super) read_bytes: Count,
    pub(super) write_backs: Count,
    pub(super) write_back_frames: Count,
}

/// The counts of an agent's paging so far.
#[derive(Clone, Debug)]
pub struct PagingReport {
    /// The counts of the cache.
    pub cache: CacheCounters,
    /// How many bytes the slots in use have.
    pub used_bytes: u64,
    /// How many bytes static copies have.
    pub static_bytes: u64,
    /// How many bytes were read from servers.
    pub read_bytes: u64,
    /// How many write-backs have come.
    pub write_backs: u64,
    /// How many frames they have left in.
    pub write_back_frames: u64,
    /// How fast the bytes of a server come.
    pub net: Option<ByteRate>,
    /// How fast bytes go to applications.
    pub intra: Option<ByteRate>,
    /// Every region that is attached.
    pub regions: Vec<RegionReport>,
}

/// How one region fares.
#[derive(Clone, Debug)]
pub struct RegionReport {
    /// Which.
    pub name: RegionIdentity,
    /// Its size in bytes.
    pub size: u64,
    /// The mode that was asked for last.
    pub mode: CacheMode,
    /// Whether there is a static copy of it, complete or not.
    pub is_copied: bool,
    /// Where its bytes came from.
    pub sources: Sources,
    /// The switch's word about it, where that decides whether it is cached.
    pub switch: Option<SwitchReport>,
    /// How fast the bytes of its server come.
    pub net: Option<ByteRate>,
}
