//! What is shown of messages.

use crate::status::{Gauge, StatusPage};

/// What is counted of messages, over all workers.
pub(super) struct Numbers {
    pub(super) ranks: Gauge,
    runs_total: Gauge,
    bytes_total: Gauge,
    parcels_to_ranks_total: Gauge,
    parcels_to_ranks_bytes_total: Gauge,
    parcels_to_agents_total: Gauge,
    parcels_to_agents_bytes_total: Gauge,
    blocked_total: Gauge,
    unroutable_total: Gauge,
}

/// What one worker has counted and not shown.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) bytes: u64,
    pub(super) parcels_to_ranks: u64,
    pub(super) parcels_to_ranks_bytes: u64,
    pub(super) parcels_to_agents: u64,
    pub(super) parcels_to_agents_bytes: u64,
    pub(super) blocked: u64,
    pub(super) unroutable: u64,
}

impl Numbers {
    pub(super) fn new(page: &StatusPage) -> Self {
        Self {
            ranks: page.gauge("routed_ranks"),
            runs_total: page.gauge("routed_runs_total"),
            bytes_total: page.gauge("routed_bytes_total"),
            parcels_to_ranks_total: page.gauge("parcels_to_ranks_total"),
            parcels_to_ranks_bytes_total: page.gauge("carried_to_ranks_bytes_total"),
            parcels_to_agents_total: page.gauge("parcels_to_agents_total"),
            parcels_to_agents_bytes_total: page.gauge("carried_to_agents_bytes_total"),
            blocked_total: page.gauge("runs_blocked_total"),
            unroutable_total: page.gauge("runs_unroutable_total"),
        }
    }

    pub(super) fn add(&self, tally: Tally) {
        self.runs_total.add(tally.runs);
        self.bytes_total.add(tally.bytes);
        self.parcels_to_ranks_total.add(tally.parcels_to_ranks);
        self.parcels_to_ranks_bytes_total.add(tally.parcels_to_ranks_bytes);
        self.parcels_to_agents_total.add(tally.parcels_to_agents);
        self.parcels_to_agents_bytes_total.add(tally.parcels_to_agents_bytes);
        self.blocked_total.add(tally.blocked);
        self.unroutable_total.add(tally.unroutable);
    }
}
