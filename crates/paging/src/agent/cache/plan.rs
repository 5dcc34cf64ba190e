//! The consequences of a visit: the entry is remembered, and the next ones are read ahead.

use std::ops::Range;

use super::entry::{Entry, EntryKey};
use super::load::LoadOrder;
use super::page_cache::PageCache;
use super::pieces::{PIECES_MAX, PieceSet};
use super::prefetch::Target;
use super::region::RegionNumber;

/// The forecast that a visit gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outlook {
    /// Nothing.
    None,
    /// The rest of the entry may be wanted.
    Whole,
    /// The movement goes on by this step, with these pieces of every entry.
    Movement { step: i64, pieces: PieceSet },
}

impl PageCache {
    /// A request has come to `needed` pieces of an entry.
    pub(super) fn visit(&mut self, key: EntryKey, slot: u32, needed: PieceSet) {
        let entry = &mut self.entries[slot as usize];
        let before = entry.touched;
        let is_entered = before.is_empty() && !entry.fresh.is_empty();
        let is_visit = self.replacement.touch(&mut entry.usage) || before.meets(needed);
        entry.touched = if is_visit { needed } else { before.with(needed) };
        entry.is_planned &= !is_visit;
        let is_used = entry.fresh.meets(needed);
        entry.fresh = entry.fresh.without(needed);
        let is_planned = entry.is_planned;
        let depth_max = self.config.prefetch.depth_max;
        if is_entered
            && is_used
            && let Some(region) = self.region_of(key)
        {
            region.read_ahead_paid(depth_max);
        }
        if !is_planned && depth_max > 0 {
            let is_first = is_visit || before.is_empty();
            self.plan(key, slot, needed, if is_visit { PieceSet::NONE } else { before }, is_first);
        }
        self.recent.note(key.region, key.entry);
    }

    fn plan(&mut self, key: EntryKey, slot: u32, needed: PieceSet, before: PieceSet, is_first: bool) {
        let outlook = self.outlook(key, slot, needed, before, is_first);
        if outlook == Outlook::None {
            return;
        }
        let whole = self.entries[slot as usize].whole;
        self.entries[slot as usize].is_planned = true;
        let Outlook::Movement { step, pieces } = outlook else {
            self.want(key, whole, true);
            return;
        };
        let chunks = self.chunks_around(key, needed);
        let rest = match step {
            1 => PieceSet::range(chunks.start..PIECES_MAX),
            -1 => PieceSet::range(0..chunks.end),
            _ => pieces,
        };
        self.want(key, rest.and(whole), true);
        let depth = self.region_of(key).map_or(0, |region| region.depth).min(self.config.prefetch.depth_max);
        for ahead in 1..=i64::from(depth) {
            if let Some(entry) = key.entry.checked_add_signed(step * ahead) {
                self.want(EntryKey { entry, ..key }, pieces, false);
            }
        }
    }

    fn outlook(
        &mut self,
        key: EntryKey,
        slot: u32,
        needed: PieceSet,
        before: PieceSet,
        is_first: bool,
    ) -> Outlook {
        let all = PieceSet::range(0..PIECES_MAX);
        let chunks = self.chunks_around(key, needed);
        if chunks.start > 0 && before.meets(PieceSet::range(chunks.start - 1..chunks.start)) {
            return Outlook::Movement { step: 1, pieces: all };
        }
        if before.meets(PieceSet::range(chunks.end..chunks.end + 1)) {
            return Outlook::Movement { step: -1, pieces: all };
        }
        // Neighbours among many recent entries may be chance, so what follows is weaker evidence.
        let step = if is_first { self.recent.movement(key.region, key.entry) } else { None };
        let is_evidence = step.is_some() || !is_first;
        if !is_evidence || !self.region_of(key).is_some_and(|region| region.is_worth_a_try()) {
            return Outlook::None;
        }
        step.map_or(Outlook::Whole, |step| Outlook::Movement {
            step,
            pieces: self.pattern(key, slot, step, all),
        })
    }

    /// The pieces of all chunks that a request meets, the first of them on.
    fn chunks_around(&mut self, key: EntryKey, needed: PieceSet) -> Range<u32> {
        let log2 = self.region_of(key).map_or(0, |region| region.pieces_per_chunk_log2);
        let run = needed.first_run().unwrap_or(0..0);
        let end = run.end.div_ceil(1 << log2) << log2;
        run.start >> log2 << log2..end.min(PIECES_MAX)
    }

    /// The part of every entry that a movement by larger steps takes: that which it took of the one before.
    fn pattern(&self, key: EntryKey, slot: u32, step: i64, all: PieceSet) -> PieceSet {
        if step.abs() == 1 {
            return all;
        }
        let here = self.entries[slot as usize].touched;
        let before = key.entry.checked_add_signed(-step).map(|entry| EntryKey { entry, ..key });
        let before = before.and_then(|key| self.table.get(&key)).map(|slot| &self.entries[*slot as usize]);
        before.map_or(here, |entry: &Entry| entry.touched.with(here))
    }

    /// Plans to read pieces of an entry ahead, unless they are here or do not exist.
    fn want(&mut self, key: EntryKey, pieces: PieceSet, is_urgent: bool) {
        let entry_log2 = self.config.entry_log2;
        let Some(region) = self.region_of(key) else { return };
        let is_inside = key.entry <= region.size.saturating_sub(1) >> entry_log2;
        let resident = self.table.get(&key).map(|slot| &self.entries[*slot as usize]);
        let is_missing = resident.is_none_or(|entry| !entry.missing(pieces).is_empty());
        if is_inside && is_missing {
            self.targets.add(Target { key, pieces }, is_urgent);
        }
    }

    /// The next bytes to read ahead, of a region that `can_read` allows, if there is leisure for it.
    pub fn next_ahead(&mut self, can_read: impl Fn(RegionNumber) -> bool) -> Option<LoadOrder> {
        let limits = self.config.prefetch;
        let mut index = 0;
        while self.loads.awaited <= limits.demand_max && self.loads.ahead_bytes < limits.in_flight_max {
            let Target { key, pieces } = self.targets.get(index)?;
            if !can_read(RegionNumber(key.region)) {
                index += 1;
                continue;
            }
            let Some(slot) = self.table.get(&key).copied().or_else(|| self.admit(key, true)) else {
                self.targets.remove(index);
                continue;
            };
            let missing = self.entries[slot as usize].missing(pieces);
            let Some(run) = missing.first_run() else {
                self.targets.remove(index);
                continue;
            };
            let piece_log2 = self.region_of(key)?.piece_log2;
            let most = (limits.read_max >> piece_log2).max(1);
            let run = run.start..run.end.min(run.start + most);
            return Some(self.begin_load(key, slot, run, true));
        }
        None
    }
}
