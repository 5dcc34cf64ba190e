//! What the application asks of its far memory.

use std::sync::Arc;

use outboard_paging::pager::ChunkKey;

use super::stats::get;
use super::uninterrupted::Uninterrupted;
use super::{PagedRegion, Pages, PagingStats, Traffic};

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
}
