//! The entries that live in the slots.

use outboard_wire::mutant;

use super::entry::{Entry, EntryKey, Tenancy};
use super::page_cache::PageCache;
use super::pieces::PieceSet;
use super::region::RegionNumber;

impl PageCache {
    /// A slot for a new entry, taken from another if none is free; `None` if all are in use.
    pub(super) fn admit(&mut self, key: EntryKey, is_ahead: bool) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = self.replacement.victim(&self.entries, is_ahead)? as u32;
                self.counters.evictions += 1;
                self.vacate(slot);
                self.free.pop()?
            }
        };
        let entry_log2 = self.config.entry_log2;
        let region = self.region_of(key)?;
        region.entries += 1;
        let pieces = region.entry_len(key.entry, entry_log2).div_ceil(1 << region.piece_log2);
        let usage = self.replacement.admit(key);
        self.entries[slot as usize] = Entry {
            tenancy: Tenancy::Resident(key),
            whole: PieceSet::range(0..pieces as u32),
            usage,
            ..Entry::free()
        };
        self.table.insert(key, slot);
        Some(slot)
    }

    /// Takes an entry out of its slot, which becomes free as soon as nothing moves in or out of it any more.
    fn vacate(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        let Tenancy::Resident(key) = entry.tenancy else { return };
        entry.tenancy = Tenancy::Leaving;
        let (fresh, prefetched, usage) = (entry.fresh, entry.prefetched, entry.usage);
        self.table.remove(&key);
        self.replacement.dismiss(key, &usage);
        let unused = fresh.runs().map(|run| u64::from(self.place_of(key, slot, run).len)).sum::<u64>();
        self.counters.unused_bytes += unused;
        if let Some(region) = self.region_of(key) {
            region.entries = region.entries.saturating_sub(1);
            region.judge_read_ahead(prefetched, fresh.count());
        }
        self.free_if_left(slot);
        self.regions.forget_if_unused(RegionNumber(key.region));
    }

    /// Frees a slot that was only kept for bytes that still moved.
    pub(super) fn free_if_left(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        if entry.tenancy == Tenancy::Leaving && (entry.pins == 0 || mutant("paging.slot-reused-too-early")) {
            *entry = Entry::free();
            self.free.push(slot);
        }
    }

    /// Drops all entries of a region.
    pub(super) fn drop_entries(&mut self, region: RegionNumber) {
        self.targets.forget(region.0);
        for slot in 0..self.config.slots {
            if matches!(self.entries[slot as usize].tenancy, Tenancy::Resident(key) if key.region == region.0)
            {
                self.vacate(slot);
            }
        }
    }

    /// Makes room for another region by forgetting one that no application has attached.
    pub(super) fn forget_one(&mut self) -> bool {
        let idle = self.regions.iter().find(|(_, region)| region.attachments == 0 && region.writes == 0);
        let Some(number) = idle.map(|(number, _)| number) else { return false };
        self.invalidate(number);
        true
    }
}
