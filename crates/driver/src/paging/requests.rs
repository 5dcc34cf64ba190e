//! What the application asks of its far memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_paging::pager::ChunkKey;

use super::stats::get;
use super::uninterrupted::Uninterrupted;
use super::{PagedRegion, Pages, PagingStats, Path, Traffic};

impl Pages {
    /// What may be newer here than at the server has to be written back from now on; see
    /// [`write_back`](Self::write_back).
    pub fn begin_flush(&self, region: &PagedRegion) {
        let _uninterrupted = Uninterrupted::new();
        self.shelves.iter().for_each(|shelf| shelf.lock().shard.owe(region.number));
    }

    /// Moves out what a flush waits for, so that it is written back. Touched again, it comes back. Returns how much of
    /// it is not at the server yet, in chunks.
    pub fn write_back(&self, region: &Arc<PagedRegion>) -> usize {
        let _uninterrupted = Uninterrupted::new();
        let mut owed = 0;
        for (shard, shelf) in self.shelves.iter().enumerate() {
            let keys: Vec<ChunkKey> = shelf.lock().shard.owed_here(region.number).collect();
            for key in keys {
                self.send_home(shard, region, key);
            }
            owed += shelf.lock().shard.owed(region.number);
        }
        owed
    }

    /// Chunks that will hardly be needed again: their places in the buffer are the next to be taken.
    pub fn dont_need(&self, region: &PagedRegion, first: u32, end: u32) {
        let _uninterrupted = Uninterrupted::new();
        for index in first..end.min(region.chunks()) {
            self.dismiss(ChunkKey { region: region.number, index }, true);
        }
    }

    /// What it has done so far.
    pub fn stats(&self) -> PagingStats {
        let _uninterrupted = Uninterrupted::new();
        let tally = &self.tally;
        let mut stats = PagingStats {
            stuck: get(&tally.stuck),
            traffic: Traffic {
                demand: get(&tally.demand_bytes),
                ahead: get(&tally.ahead_bytes),
                saved: get(&tally.saved_bytes),
                by_agent: get(&tally.agent_bytes),
                by_copy: get(&tally.copy_bytes),
            },
            agent_hits: get(&tally.agent_hits),
            agent_late: get(&tally.agent_late),
            agent_misses: get(&tally.agent_misses),
            agent_passed: get(&tally.agent_passed),
            agent_losses: get(&tally.agent_losses),
            ..PagingStats::default()
        };
        for shelf in &self.shelves {
            let cell = shelf.lock();
            let counts = cell.shard.counts();
            stats.faults_fetched += counts.fetched;
            stats.faults_joined += counts.joined;
            stats.faults_rescued += counts.rescued;
            stats.faults_parked += counts.parked;
            stats.chunks_ahead += counts.ahead;
            stats.evictions += counts.evicted;
            stats.saves += counts.saved;
            stats.buffer_used += cell.shard.used() as u64;
            for (sum, count) in stats.edges.iter_mut().zip(counts.edges) {
                *sum += count;
            }
        }
        stats
    }

    /// What was chosen for each region, for people.
    pub fn explain(&self) -> Vec<String> {
        let _uninterrupted = Uninterrupted::new();
        let now = self.clock.now();
        self.regions().iter().map(|region| region.explain(now)).collect()
    }

    /// What was chosen for a region, for people.
    pub fn explain_region(&self, region: &PagedRegion) -> String {
        let _uninterrupted = Uninterrupted::new();
        region.explain(self.clock.now())
    }

    /// Whether all fault threads know what their agent will do with every region that may go by it.
    pub fn is_settled_with_agent(&self) -> bool {
        let _uninterrupted = Uninterrupted::new();
        let threads = self.config.threads as u64;
        let is_settled = |region: &Arc<PagedRegion>| {
            region.spec.path == Path::Direct || region.answered_by_agents.load(Ordering::Acquire) >= threads
        };
        self.regions().iter().all(is_settled)
    }

    /// The memory servers, by their numbers, that the agent does not know, as it has said last.
    pub fn servers_unknown_to_agent(&self) -> BTreeSet<usize> {
        let _uninterrupted = Uninterrupted::new();
        let regions = self.regions();
        let unknown = regions.iter().filter(|region| region.is_unknown_to_agent.load(Ordering::Acquire));
        unknown.map(|region| region.spec.at).collect()
    }

    /// How many fault threads have a link to a memory server.
    pub fn server_links(&self, server: usize) -> usize {
        self.server_links[server].load(Ordering::Acquire) as usize
    }

    /// On how many links a region is open.
    pub fn opened(&self, region: &PagedRegion) -> u64 {
        region.opened.load(Ordering::Acquire)
    }

    /// How many faults have brought bytes from afar, which costs less to ask than all of [`stats`](Self::stats).
    pub fn fetches(&self) -> u64 {
        get(&self.tally.fetches)
    }
}
