//! Remote writes that were unloaded, as they are copied home.

use outboard_driver::LinkId;
use outboard_link::memory::Window;
use outboard_link::{Disposition, Frame, Peer};
use outboard_wire::access::AccessStatus;
use outboard_wire::{FrameKind, Room};
use outboard_writing::{Presented, Unloaded};

use super::MemoryService;
use crate::status::{Gauge, StatusPage};

/// How many writers a server knows.
pub(super) const WRITERS_MAX: usize = 1024;

/// Whether a frame is about writes.
pub(crate) fn is_writing(kind: FrameKind) -> bool {
    kind.0 >> 8 == Room::Writing as u16
}

/// What is counted of them.
pub(super) struct UnloadedGauges {
    batches_total: Gauge,
    entries_total: Gauge,
    bytes_total: Gauge,
    refused_total: Gauge,
}

impl UnloadedGauges {
    pub(super) fn new(page: &StatusPage) -> Self {
        Self {
            batches_total: page.gauge("unloaded_batches_total"),
            entries_total: page.gauge("unloaded_writes_total"),
            bytes_total: page.gauge("unloaded_bytes_total"),
            refused_total: page.gauge("unloaded_writes_refused_total"),
        }
    }

    fn add(&self, unloaded: Unloaded) {
        self.batches_total.add(unloaded.batches);
        self.entries_total.add(unloaded.entries);
        self.bytes_total.add(unloaded.bytes);
        self.refused_total.add(unloaded.refused);
    }
}

impl MemoryService {
    /// Does what a frame about writes asks.
    pub(super) fn unload(&mut self, link: LinkId, frame: Frame<'_>) -> Disposition {
        let (store, gates) = (&self.store, &mut self.gates);
        let version = self.peers.get(&link).map_or(0, Peer::version);
        let write = |to: &Presented, offset: u64, bytes: Window<'_>| {
            let gate = gates.find(to.region, store);
            let written = gate
                .map_or(AccessStatus::NotOpen, |gate| gate.write((to.generation, &to.key), offset, bytes));
            written.for_version(version)
        };
        match self.draining.on_frame(link, &frame, &mut self.outbox, write) {
            Some(unloaded) if unloaded.batches > 0 => self.store.unloaded.add(unloaded),
            Some(_) => {}
            None => self.counts.questions_refused_total.add(1),
        }
        Disposition::Taken
    }
}
