//! The counts of far memory in this process.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters that fault threads add to.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) fetches: AtomicU64,
    pub(super) demand_bytes: AtomicU64,
    pub(super) ahead_bytes: AtomicU64,
    pub(super) saved_bytes: AtomicU64,
    pub(super) agent_bytes: AtomicU64,
    pub(super) copy_bytes: AtomicU64,
    pub(super) agent_hits: AtomicU64,
    pub(super) agent_late: AtomicU64,
    pub(super) agent_misses: AtomicU64,
    pub(super) agent_passed: AtomicU64,
    pub(super) agent_losses: AtomicU64,
    pub(super) stuck: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Bytes that crossed links, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Fetched because a thread waited.
    pub demand: u64,
    /// Fetched before they were needed.
    pub ahead: u64,
    /// Written back.
    pub saved: u64,
    /// Of those fetched: asked of the agent.
    pub by_agent: u64,
    /// Of those fetched: read from the agent's copy.
    pub by_copy: u64,
}

/// Bytes of one region that crossed links, by the way that they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionTraffic {
    /// Fetched from the memory server.
    pub direct: u64,
    /// Fetched by asking the agent.
    pub by_agent: u64,
    /// Fetched from the agent's copy.
    pub by_copy: u64,
    /// Written back.
    pub saved: u64,
}

/// Counters of one region.
#[derive(Debug, Default)]
pub(super) struct RegionTally {
    pub(super) direct: AtomicU64,
    pub(super) by_agent: AtomicU64,
    pub(super) by_copy: AtomicU64,
    pub(super) saved: AtomicU64,
}

impl RegionTally {
    pub(super) fn read(&self) -> RegionTraffic {
        RegionTraffic {
            direct: get(&self.direct),
            by_agent: get(&self.by_agent),
            by_copy: get(&self.by_copy),
            saved: get(&self.saved),
        }
    }
}

impl Sum for RegionTraffic {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::default(), |sum, part| Self {
            direct: sum.direct + part.direct,
            by_agent: sum.by_agent + part.by_agent,
            by_copy: sum.by_copy + part.by_copy,
            saved: sum.saved + part.saved,
        })
    }
}

/// The counts of far memory in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagingStats {
    /// Faults that waited for bytes from afar.
    pub faults_fetched: u64,
    /// How many of these brought one page: of chunks that are touched here and there.
    pub faults_for_pages: u64,
    /// Faults on chunks that were on their way already.
    pub faults_joined: u64,
    /// Faults on chunks that had been set aside and were still here.
    pub faults_rescued: u64,
    /// Faults that found every place in the buffer on its way.
    pub faults_parked: u64,
    /// Chunks fetched before they were needed.
    pub chunks_ahead: u64,
    /// Chunks that were never written, and came as zeros without being fetched.
    pub chunks_blank: u64,
    /// Chunks that gave their place to others.
    pub evictions: u64,
    /// Chunks written back.
    pub saves: u64,
    /// Chunks that could not be moved out because the kernel held their pages.
    pub stuck: u64,
    /// Bytes that crossed links.
    pub traffic: Traffic,
    /// Fetches that the agent's cache had.
    pub agent_hits: u64,
    /// Fetches that waited for the agent's prefetch.
    pub agent_late: u64,
    /// Fetches that the agent's cache did not have.
    pub agent_misses: u64,
    /// Fetches that the agent passed on, for it was not to cache them.
    pub agent_passed: u64,
    /// Links to the agent that were lost; each fault thread has one.
    pub agent_losses: u64,
    /// Bytes that the buffer may have now.
    pub buffer: u64,
    /// Bytes of the buffer in use.
    pub buffer_used: u64,
    /// How often each way between the states of a chunk was gone.
    pub edges: [u64; super::chunks::TRANSITIONS.len()],
}
