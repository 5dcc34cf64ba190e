//! Regions that were there before the server was started again, and those who had them.

use std::sync::Arc;

use outboard_keep::KeptRegion;
use outboard_link::memory::Segment;
use outboard_wire::control::ControlAnswer;
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey, Rights, Time};

use super::capacity::WrittenParts;
use super::gate::{Gate, Keys};
use super::holders::Holders;
use super::region::{Kept, StoredRegion};
use super::{Answer, No, RegionStore, no_memory};
use crate::keep::{Keep, KeptRegions, is_alive};

impl RegionStore {
    /// Keeps named regions from now on, and has those that were kept. The processes that had them are waited for, as if
    /// their links had been lost now.
    pub(crate) fn keep_in(&mut self, keep: &Arc<Keep>, kept: KeptRegions, now: Time) -> Result<(), No> {
        self.keep = Some(Arc::clone(keep));
        self.next_id = self.next_id.max(kept.last.0 + 1);
        for (region, memory) in kept.regions {
            self.find_again(keep, region, memory, now)?;
        }
        self.forget_the_dead();
        Ok(())
    }

    fn find_again(
        &mut self,
        keep: &Arc<Keep>,
        kept: KeptRegion,
        memory: Segment,
        now: Time,
    ) -> Result<(), No> {
        let KeptRegion {
            region,
            generation,
            size,
            chunk_log2,
            is_sparse,
            name,
            owner,
            keys,
            epoch,
            holders,
            ..
        } = kept;
        let len = memory.len() as u64;
        let footprint = if is_sparse { 0 } else { len };
        // What is there is there: with less capacity than before it is only that nothing is left.
        self.capacity.was_taken(footprint);
        let written = is_sparse.then(|| WrittenParts::new(&self.capacity, len, chunk_log2));
        if let Some(written) = &written {
            let parts = memory.written_parts().map_err(no_memory)?;
            parts.into_iter().for_each(|(from, to)| written.were_written(from, to));
        }
        let memory = Arc::new(memory);
        keep.watch(region, &memory);
        let gate = Gate::new(generation, Keys::of_kept(keys), size, (memory, written.map(Arc::new)));
        let gate = Arc::new(gate.in_epoch(epoch).kept_in(Some(keep), region));
        for holder in &holders {
            self.clients.had_links(now, holder.process, (holder.pid, holder.mapped_since));
        }
        let owner = owner.filter(|owner| holders.iter().any(|holder| holder.process == *owner));
        let stored = StoredRegion {
            owner,
            holders: Holders::of_kept(&holders),
            kept: Kept::ByName(name),
            chunk_log2,
            footprint,
            gate,
            is_syncing: false,
            keep: Some(Arc::clone(keep)),
        };
        stored.gate.memory.set_quiet(stored.holders.all_lease());
        self.add(region, stored);
        Ok(())
    }

    /// The next part of a region that was written, from `offset` on.
    pub(super) fn next_written(
        &mut self,
        (region, generation, key): (RegionId, Generation, &RegionKey),
        offset: u64,
    ) -> Answer {
        let gate = &self.with_key(region, generation, key, Rights::READ)?.gate;
        let (start, end) = gate.memory.next_written(offset.min(gate.size)).map_err(no_memory)?;
        Ok(ControlAnswer::WrittenPart { start: start.min(gate.size), end: end.min(gate.size) })
    }

    /// A process of this machine may map regions, and was started then.
    pub(crate) fn may_map(&mut self, process: Incarnation, since: u64) {
        self.clients.may_map(process, since);
    }

    /// Whether regions are kept, so that it matters which processes may have mapped them.
    pub(crate) fn keeps(&self) -> bool {
        self.keep.is_some()
    }

    /// The server is ending: what processes have stays theirs, and they find it at its next start.
    pub(crate) fn rest(&mut self) {
        self.is_resting = self.keep.is_some();
    }

    /// Whether a process without links may still store to regions that it has mapped.
    pub(super) fn lives_with_mappings(&self, process: Incarnation) -> bool {
        let (pid, since) = self.clients.seen(process);
        self.keep.is_some() && since != 0 && is_alive(pid, since)
    }

    /// The kernel tells the death of a process with a link. Of those that had one before the server was started again, this
    /// is where it is noticed.
    pub(super) fn forget_the_dead(&mut self) {
        if self.keep.is_none() {
            return;
        }
        for process in self.clients.away_with_mappings() {
            let (pid, since) = self.clients.seen(process);
            if !is_alive(pid, since) {
                self.dismiss(process);
            }
        }
    }
}
