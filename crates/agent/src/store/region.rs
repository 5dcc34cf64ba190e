//! One region, as the store keeps it.

use std::sync::Arc;

use outboard_keep::{JournalRecord, KeptRegion};
use outboard_link::Export;
use outboard_paging::server::Home;
use outboard_wire::control::{FILE_PREFIX, RegionName, RegionSharing};
use outboard_wire::{Extent, ExtentRole, Grant, Incarnation, RegionDescriptor, RegionId, Rights, mutant};
use rustix::io::Errno;

use super::gate::Gate;
use super::holders::{Change, Claim, Holders};
use super::{No, StoreConfig};
use crate::keep::Keep;

pub(super) struct StoredRegion {
    /// Who reserved it; none once a kept region has outlived its client.
    pub(super) owner: Option<Incarnation>,
    pub(super) holders: Holders,
    pub(super) kept: Kept,
    pub(super) chunk_log2: u8,
    /// What it takes of the capacity from the start; nothing if it is sparse.
    pub(super) footprint: u64,
    pub(super) gate: Arc<Gate>,
    /// Whether it is being written to its file.
    pub(super) is_syncing: bool,
    /// Where it is kept over restarts of the server, if it is.
    pub(super) keep: Option<Arc<Keep>>,
}

/// How long a region is kept.
pub(super) enum Kept {
    /// As long as its client lives.
    WithClient,
    /// Until it is freed; others find it by this name.
    ByName(String),
    /// Until it is freed; others find it by the file it was loaded from.
    ByFile(String),
}

impl StoredRegion {
    /// How many bytes of the capacity come free with it.
    pub(super) fn taken(&self) -> u64 {
        self.footprint + self.gate.written_bytes()
    }

    /// Changes who has it. Every writer has an epoch of its own, and none has the time between two: so nothing that a
    /// writer who is gone has sent is written when it arrives late.
    pub(super) fn apply(&mut self, change: impl FnOnce(&mut Holders) -> Change) {
        if change(&mut self.holders) == Change::OfWriters && !mutant("agent.epoch-of-another-writer") {
            self.gate.raise();
        }
        self.gate.memory.set_quiet(self.holders.all_lease());
    }

    /// Takes it from processes that were waited for in vain. If they come after all, their keys open nothing: they may
    /// have copies that are no longer right, or bytes to write that come unexpected. A process that asks for it and had it
    /// already is given a new key with the answer.
    pub(super) fn take_from(&mut self, overdue: &[(Incarnation, Claim)]) -> Result<(), Errno> {
        let mut keys = self.gate.keys.clone();
        for (_, claim) in overdue.iter().filter(|_| !mutant("agent.late-key-still-opens")) {
            keys = keys.without(*claim)?;
        }
        for (process, _) in overdue {
            self.apply(|holders| holders.forget(*process));
        }
        self.gate = Arc::new(self.gate.with_keys(keys));
        Ok(())
    }

    /// Notes who has it, before a process is told.
    pub(super) fn note_holders(&self, region: RegionId) -> Result<(), No> {
        let Some(keep) = &self.keep else { return Ok(()) };
        let epoch = self.gate.epoch().now();
        keep.note(&JournalRecord::Held { region, epoch, holders: self.holders.kept() })
    }

    /// Notes what it is, before a process is told.
    pub(super) fn note_all(&self, region: RegionId) -> Result<(), No> {
        let (Some(keep), Some(kept)) = (&self.keep, self.as_kept(region)) else { return Ok(()) };
        keep.note(&JournalRecord::Region(Box::new(kept)))
    }

    /// As a journal has it; nothing if no other process could find it.
    fn as_kept(&self, region: RegionId) -> Option<KeptRegion> {
        let Kept::ByName(name) = &self.kept else { return None };
        let gate = &self.gate;
        Some(KeptRegion {
            region,
            generation: gate.generation,
            size: gate.size,
            memory: gate.memory.len() as u64,
            chunk_log2: self.chunk_log2,
            is_sparse: gate.is_sparse(),
            name: name.clone(),
            owner: self.owner,
            keys: gate.keys.all().map(|(key, _)| key),
            epoch: gate.epoch().now(),
            holders: self.holders.kept(),
        })
    }

    /// As others may open it.
    pub(super) fn export(&self, region: RegionId) -> Export {
        let gate = &self.gate;
        let (generation, memory) = (gate.generation, Arc::clone(&gate.memory));
        Export { region, generation, memory, keys: gate.keys.all().to_vec() }
    }

    /// What a client with these rights is told of it.
    pub(super) fn describe(
        &self,
        server: &StoreConfig,
        region: RegionId,
        (rights, sharing): (Rights, RegionSharing),
    ) -> RegionDescriptor {
        let (key, rights) = self.gate.keys.of(rights, sharing);
        let size = self.gate.size;
        let extent = Extent {
            server: server.server,
            incarnation: server.incarnation,
            offset: 0,
            length: size,
            role: ExtentRole::Primary,
        };
        RegionDescriptor {
            grant: Grant { region, generation: self.gate.generation, key, rights, size },
            chunk_log2: self.chunk_log2,
            epoch: self.gate.epoch().now(),
            extents: vec![extent],
        }
    }
}

impl Kept {
    pub(super) fn is_with_client(&self) -> bool {
        matches!(self, Self::WithClient)
    }

    /// What a list shows.
    pub(super) fn shown(&self) -> RegionName {
        match self {
            Self::WithClient => RegionName::new(""),
            Self::ByName(name) => RegionName::new(name),
            Self::ByFile(path) => RegionName::new(&format!("{FILE_PREFIX}{path}")),
        }
    }
}
