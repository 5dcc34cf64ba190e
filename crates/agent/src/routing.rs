//! What an agent's router needs of the daemon: memory, numbers on the status page, and words in the log.

use std::sync::Arc;

use outboard_link::memory::Segment;
use outboard_link::{Export, Exports};
use outboard_routing::{PackingConfig, RouterHost, RoutingConfig, RoutingCounts, SharedRouting};
use outboard_settings::AgentSettings;
use outboard_wire::{FrameKind, Generation, Grant, Rank, RegionId, RegionKey, Rights, Room};
use rustix::io::Errno;

use crate::counts::Pace;
use crate::status::{Gauge, StatusPage};

/// The region in which ranks find the parcels that are for them.
const PARCELS: RegionId = RegionId(u64::MAX - 2);

/// Whether a frame is about messages.
pub(crate) fn is_routing(kind: FrameKind) -> bool {
    kind.0 >> 8 == Room::Routing as u16
}

/// The settings of a router that follow from an agent's.
pub(crate) fn config_of(settings: &AgentSettings, workers: usize) -> RoutingConfig {
    RoutingConfig {
        workers,
        parcel_bytes: settings.parcel.0 as usize,
        parcels: settings.parcels as u32,
        packing: PackingConfig { hold: settings.hold, ..PackingConfig::default() },
        relays: settings.relay,
    }
}

/// Takes memory for parcels, which ranks that present `key` can read as long as `exports` has it.
pub(crate) fn share_routing(
    config: RoutingConfig,
    key: [u8; 16],
    exports: &Exports,
    host: Arc<dyn RouterHost>,
) -> Result<SharedRouting, Errno> {
    let memory = Arc::new(Segment::create(c"outboard-parcels", config.memory_bytes())?);
    let (key, rights, generation) = (RegionKey(key), Rights::READ, Generation(1));
    let keys = vec![(key, rights)];
    exports.add(Export { region: PARCELS, generation, memory: Arc::clone(&memory), keys });
    let grant = Grant { region: PARCELS, generation, key, rights, size: memory.len() as u64 };
    Ok(SharedRouting::new(config, (memory.into_buffer(), grant), host))
}

/// The daemon as its router sees it.
pub(crate) struct AgentHost<W> {
    wake: W,
    ranks: Gauge,
    runs_total: Gauge,
    bytes_total: Gauge,
    parcels_to_ranks_total: Gauge,
    parcels_to_ranks_bytes_total: Gauge,
    parcels_to_agents_total: Gauge,
    parcels_to_agents_bytes_total: Gauge,
    blocked_total: Gauge,
    unroutable_total: Gauge,
    /// What is said of ranks and agents that are refused: they must not fill a disk.
    warnings: Pace,
}

impl<W: Fn(usize) + Send + Sync> AgentHost<W> {
    /// `wake` has a worker look for errands.
    pub(crate) fn new(page: &StatusPage, wake: W) -> Self {
        Self {
            wake,
            ranks: page.gauge("routed_ranks"),
            runs_total: page.gauge("routed_runs_total"),
            bytes_total: page.gauge("routed_bytes_total"),
            parcels_to_ranks_total: page.gauge("parcels_to_ranks_total"),
            parcels_to_ranks_bytes_total: page.gauge("carried_to_ranks_bytes_total"),
            parcels_to_agents_total: page.gauge("parcels_to_agents_total"),
            parcels_to_agents_bytes_total: page.gauge("carried_to_agents_bytes_total"),
            blocked_total: page.gauge("runs_blocked_total"),
            unroutable_total: page.gauge("runs_unroutable_total"),
            warnings: Pace::new(),
        }
    }
}

impl<W: Fn(usize) + Send + Sync> RouterHost for AgentHost<W> {
    fn wake(&self, worker: usize) {
        (self.wake)(worker);
    }

    fn warn(&self, text: &str) {
        if let Some(unsaid) = self.warnings.say() {
            tracing::warn!(unsaid, "{text}");
        }
    }

    fn attached(&self, rank: Rank) {
        self.ranks.add(1);
        tracing::debug!("carrying messages for rank {}", rank.0);
    }

    fn detached(&self) {
        self.ranks.add(u64::MAX);
    }

    fn count(&self, counts: RoutingCounts) {
        self.runs_total.add(counts.runs);
        self.bytes_total.add(counts.bytes);
        self.parcels_to_ranks_total.add(counts.parcels_to_ranks);
        self.parcels_to_ranks_bytes_total.add(counts.parcels_to_ranks_bytes);
        self.parcels_to_agents_total.add(counts.parcels_to_agents);
        self.parcels_to_agents_bytes_total.add(counts.parcels_to_agents_bytes);
        self.blocked_total.add(counts.blocked);
        self.unroutable_total.add(counts.unroutable);
    }
}
