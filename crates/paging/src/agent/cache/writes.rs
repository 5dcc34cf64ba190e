//! Write-backs that pass by the cache.
//!
//! From its arrival until it is acknowledged, a write-back makes the server's bytes and the cache's differ. Pieces
//! that the cache has whole are brought up to date at once and *held*: neither valid nor to be loaded until the
//! server has acknowledged all write-backs to them. Any other piece that is touched is no longer valid, and whatever
//! was being loaded into it is not valid when it comes.

use outboard_wire::mutant;

use super::entry::{EntryKey, Tenancy};
use super::load::CacheSpan;
use super::page_cache::PageCache;
use super::pieces::PieceSet;
use super::region::RegionNumber;
use super::slab::Slab;

/// A write-back by its number, from its arrival until it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteBackId(pub(crate) u32);

#[derive(Clone, Copy, Debug)]
struct Write {
    region: RegionNumber,
    offset: u64,
    len: u64,
    /// The slot that holds its bytes, and which pieces.
    held: Option<(u32, PieceSet)>,
}

/// All write-backs under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writes(Slab<Write>);

impl PageCache {
    /// A write-back has come. If a place is returned, copy its bytes there before it ends: they are valid once it is
    /// acknowledged, and no other write touches the place until then.
    pub fn write_begins(
        &mut self,
        region: RegionNumber,
        offset: u64,
        len: u32,
    ) -> (WriteBackId, Option<CacheSpan>) {
        let entry_log2 = self.config.entry_log2;
        let len = u64::from(len);
        let end = offset.saturating_add(len);
        let mut held = None;
        for entry in offset >> entry_log2..=(end.max(offset + 1) - 1) >> entry_log2 {
            let key = EntryKey { region: region.0, entry };
            let Some(slot) = self.table.get(&key).copied() else { continue };
            let base = entry << entry_log2;
            let from = offset.max(base) - base;
            let place = CacheSpan {
                slot,
                offset: from as u32,
                len: (end - base - from).min(self.config.entry_bytes() - from) as u32,
            };
            let is_inside = offset >= base && end <= base + self.config.entry_bytes();
            held = self.write_over(key, place, is_inside);
        }
        if let Some(region) = self.regions.get_mut(region) {
            region.writes += 1;
        }
        let pieces = held.map(|(place, pieces): (CacheSpan, PieceSet)| (place.slot, pieces));
        let number = self.writes.0.insert(Write { region, offset, len, held: pieces });
        (WriteBackId(number), held.map(|(place, _)| place))
    }

    /// Updates one entry for a write-back; returns where its bytes go if they can be kept.
    fn write_over(
        &mut self,
        key: EntryKey,
        place: CacheSpan,
        is_inside: bool,
    ) -> Option<(CacheSpan, PieceSet)> {
        let region = RegionNumber(key.region);
        let touched = self.pieces_of(region, place);
        let covered = self.covered_by(key, place);
        let entry = &mut self.entries[place.slot as usize];
        // Whole afterwards: known until now, or written all over.
        let kept = entry.valid.with(entry.held).and(touched).with(covered).without(entry.loading);
        entry.valid = entry.valid.without(touched);
        entry.fresh = entry.fresh.without(touched);
        entry.spoiled = entry.spoiled.with(entry.loading.and(touched));
        // Pieces that are not kept must not be held for an earlier write-back either.
        entry.broken = entry.broken.with(entry.held.and(touched).without(kept));
        if !is_inside || kept.is_empty() {
            // Nothing will be copied, so what was held of them is no longer the newest.
            entry.broken = entry.broken.with(entry.held.and(touched));
            return None;
        }
        entry.held = entry.held.with(kept);
        entry.pins += 1;
        Some((place, kept))
    }

    /// The pieces that lie completely within a place.
    fn covered_by(&self, key: EntryKey, place: CacheSpan) -> PieceSet {
        let Some(region) = self.regions.get(RegionNumber(key.region)) else { return PieceSet::NONE };
        let piece = 1u64 << region.piece_log2;
        let end = u64::from(place.offset) + u64::from(place.len);
        let is_last = end == region.entry_len(key.entry, self.config.entry_log2);
        let end = if is_last { end.div_ceil(piece) } else { end / piece };
        PieceSet::range(u64::from(place.offset).div_ceil(piece) as u32..end as u32)
    }

    /// A write-back is over: acknowledged by the server, or not.
    pub fn write_ends(&mut self, write: WriteBackId, is_done: bool) {
        let Some(over) = self.writes.0.remove(write.0) else { return };
        if let Some((slot, pieces)) = over.held {
            let others = self.writes.0.iter().filter_map(|(_, other)| other.held);
            let others = others
                .filter(|(other, _)| *other == slot)
                .fold(PieceSet::NONE, |all, (_, pieces)| all.with(pieces));
            let entry = &mut self.entries[slot as usize];
            if !is_done && !mutant("paging.refused-write-back-is-valid") {
                entry.broken = entry.broken.with(pieces);
            }
            let settled = pieces.without(others);
            entry.held = entry.held.without(settled);
            if matches!(entry.tenancy, Tenancy::Resident(_)) {
                entry.valid = entry.valid.with(settled.without(entry.broken));
            }
            entry.broken = entry.broken.without(settled);
            self.release(slot);
        }
        if let Some(region) = self.regions.get_mut(over.region) {
            region.writes = region.writes.saturating_sub(1);
        }
        self.regions.forget_if_unused(over.region);
    }

    /// How many write-backs are under way.
    pub fn writes_under_way(&self) -> usize {
        self.writes.0.len()
    }

    /// The pieces of a load that write-backs under way touch.
    pub(super) fn writes_over(&self, region: RegionNumber, offset: u64, place: CacheSpan) -> PieceSet {
        if self.regions.get(region).is_none_or(|region| region.writes == 0) {
            return PieceSet::NONE;
        }
        let end = offset + u64::from(place.len);
        let touching = self.writes.0.iter().filter(|(_, write)| write.region == region);
        let touching = touching.filter(|(_, write)| write.offset < end && offset < write.offset + write.len);
        touching.fold(PieceSet::NONE, |all, (_, write)| {
            let from = write.offset.max(offset) - offset;
            let len = (write.offset + write.len).min(end) - offset - from;
            let part = CacheSpan { slot: place.slot, offset: place.offset + from as u32, len: len as u32 };
            all.with(self.pieces_of(region, part))
        })
    }
}
