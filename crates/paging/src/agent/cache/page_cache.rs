//! The cache as a whole: requests in, loads out.

use std::collections::HashMap;

use outboard_wire::mutant;
use outboard_wire::paging::{FetchSource, Urgency};

use super::config::CacheConfig;
use super::counters::{CacheCounters, Sources};
use super::entry::{Entry, EntryKey};
use super::load::{CacheSpan, EndedWait, LoadId, LoadOrder, LoadPlan, Loads, WaiterId};
use super::pieces::PieceSet;
use super::prefetch::Targets;
use super::recent::RecentList;
use super::region::{AttachError, Found, Region, RegionAttachment, RegionIdentity, RegionNumber, Regions};
use super::replacement::Replacement;
use super::writes::Writes;

/// Bytes that an application wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheRequest {
    /// Which region.
    pub region: RegionNumber,
    /// Where they begin.
    pub offset: u64,
    /// How many there are.
    pub len: u32,
    /// How soon they are needed.
    pub urgency: Urgency,
    /// The name of the request when it had to wait.
    pub waiter: WaiterId,
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheVerdict {
    /// The bytes are here. The slot stays until it is [released](PageCache::release).
    Hit(CacheSpan),
    /// The bytes are on their way, or will be when the orders are carried out. [`PageCache::finish`] tells of the
    /// end.
    Waits,
    /// There is no place for the bytes: read them into memory of your own.
    Uncached,
    /// They are not inside the region, or there is no such region.
    OutOfBounds,
}

/// Decides what lies in the slots of a cache. It owns no bytes: the caller has one block of memory with a place for
/// each slot, carries the orders out and copies answers from it.
///
/// No request allocates memory once as many were under way before.
#[derive(Clone, Debug)]
pub struct PageCache {
    pub(super) config: CacheConfig,
    pub(super) regions: Regions,
    pub(super) table: HashMap<EntryKey, u32>,
    pub(super) entries: Vec<Entry>,
    pub(super) free: Vec<u32>,
    pub(super) loads: Loads,
    pub(super) writes: Writes,
    pub(super) recent: RecentList,
    pub(super) targets: Targets,
    pub(super) replacement: Replacement,
    pub(super) counters: CacheCounters,
}

impl PageCache {
    /// An empty cache.
    ///
    /// # Panics
    /// If there are no slots or entries of a size that is not allowed.
    pub fn new(config: CacheConfig) -> Self {
        let sizes = super::ENTRY_LOG2_MIN..=super::ENTRY_LOG2_MAX;
        assert!(sizes.contains(&config.entry_log2), "entries of 2^{} bytes", config.entry_log2);
        assert!(config.slots > 0, "a cache without slots");
        let slots = config.slots as usize;
        Self {
            config,
            regions: Regions::default(),
            table: HashMap::with_capacity(slots),
            entries: vec![Entry::free(); slots],
            free: (0..config.slots).rev().collect(),
            loads: Loads::default(),
            writes: Writes::default(),
            recent: RecentList::new(),
            targets: Targets::with_room(),
            replacement: Replacement::new(config.slots),
            counters: CacheCounters::default(),
        }
    }

    /// Its settings.
    pub fn config(&self) -> &CacheConfig {
        &self.config
    }

    /// An application attaches a region. Applications that attach the same one share its entries; entries of an earlier
    /// write epoch are dropped.
    pub fn attach(&mut self, attachment: &RegionAttachment) -> Result<RegionNumber, AttachError> {
        let piece_log2 = self.config.piece_log2(attachment.chunk_log2);
        match self.regions.attach(attachment, piece_log2, self.config.regions_max) {
            Err(AttachError::TooMany { .. }) if self.forget_one() => self.attach(attachment),
            Ok(Found::Outdated(region)) if !mutant("paging.outdated-entries-kept") => {
                self.drop_entries(region);
                Ok(region)
            }
            Ok(Found::Usable(region) | Found::Outdated(region)) => Ok(region),
            Err(error) => Err(error),
        }
    }

    /// An application detaches a region. When the last one does, the entries of a writable region are dropped:
    /// its next writer may do so without this cache.
    pub fn detach(&mut self, region: RegionNumber) {
        let Some(known) = self.regions.get_mut(region) else { return };
        known.attachments = known.attachments.saturating_sub(1);
        if known.attachments == 0 {
            if known.is_writable && !mutant("paging.entries-kept-after-detach") {
                self.drop_entries(region);
            }
            self.targets.forget(region.0);
        }
        self.regions.forget_if_unused(region);
    }

    /// The server has told of a region's write epoch. If that is a new one, another process may have written past this
    /// cache: what it has of the region is dropped. Returns whether it is.
    pub fn advance_epoch(&mut self, region: RegionNumber, epoch: u64) -> bool {
        let Some(known) = self.regions.get_mut(region).filter(|known| epoch > known.epoch) else {
            return false;
        };
        known.epoch = epoch;
        self.drop_entries(region);
        true
    }

    /// Whether there are plans to read ahead.
    pub fn has_plans(&self) -> bool {
        self.targets.get(0).is_some()
    }

    /// Drops everything that is cached of a region.
    pub fn invalidate(&mut self, region: RegionNumber) {
        self.drop_entries(region);
        self.regions.forget_if_unused(region);
    }

    /// The number of a region that is attached or cached.
    pub fn find(&self, name: &RegionIdentity) -> Option<RegionNumber> {
        self.regions.find(name)
    }

    /// The name, size in bytes and counts of every region that is attached or cached.
    pub fn regions(&self) -> impl Iterator<Item = (RegionNumber, RegionIdentity, u64, Sources)> {
        self.regions.iter().map(|(number, region)| (number, region.name, region.size, region.sources))
    }

    /// The counts so far.
    pub fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// How many slots are in use.
    pub fn used_slots(&self) -> u32 {
        self.config.slots - self.free.len() as u32
    }

    /// How many loads are under way, and how many requests wait for them.
    pub fn under_way(&self) -> (usize, usize) {
        (self.loads.count(), self.loads.waiting())
    }

    /// How many reasons there are to keep slots as they are: loads, waiting requests, answers that are being
    /// copied, write-backs.
    pub fn pins(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.pins)).sum()
    }

    /// An application wants bytes. What has to be read first is added to `orders`.
    pub fn request(&mut self, ask: &CacheRequest, orders: &mut Vec<LoadOrder>) -> CacheVerdict {
        let end = ask.offset.checked_add(ask.len.into());
        let Some(region) = self.regions.get(ask.region) else { return CacheVerdict::OutOfBounds };
        if ask.len == 0 || end.is_none_or(|end| end > region.size) {
            return CacheVerdict::OutOfBounds;
        }
        let verdict = self.find_place(ask).map_or(CacheVerdict::Uncached, |(key, place)| {
            self.entries[place.slot as usize].pins += 1;
            self.answer_from(ask, key, place, orders)
        });
        let source = match verdict {
            CacheVerdict::Hit(_) => FetchSource::Hit,
            CacheVerdict::Uncached => FetchSource::Uncached,
            // Counted when it began to wait.
            CacheVerdict::Waits | CacheVerdict::OutOfBounds => return verdict,
        };
        self.count(ask, source);
        verdict
    }

    /// A request that does not go through the cache is counted all the same.
    pub fn bypassed(&mut self, region: RegionNumber, urgency: Urgency) {
        let ask = CacheRequest { region, offset: 0, len: 0, urgency, waiter: WaiterId(0) };
        self.count(&ask, FetchSource::Uncached);
    }

    fn count(&mut self, ask: &CacheRequest, source: FetchSource) {
        self.counters.count(ask.urgency, source);
        if let Some(region) = self.regions.get_mut(ask.region) {
            region.sources.count(source);
        }
    }

    /// The slot for a request, made if it is new; `None` if the bytes cannot be cached: they cross the border
    /// between two entries, a write-back to them is under way or was a moment ago, or every slot is in use.
    fn find_place(&mut self, ask: &CacheRequest) -> Option<(EntryKey, CacheSpan)> {
        let entry_log2 = self.config.entry_log2;
        let entry = ask.offset >> entry_log2;
        let offset = (ask.offset - (entry << entry_log2)) as u32;
        if u64::from(offset) + u64::from(ask.len) > self.config.entry_bytes() {
            return None;
        }
        let key = EntryKey { region: ask.region.0, entry };
        let slot = match self.table.get(&key) {
            Some(slot) => *slot,
            None => self.admit(key, false)?,
        };
        let place = CacheSpan { slot, offset, len: ask.len };
        let is_barred = self.entries[slot as usize].is_barred(self.pieces_of(ask.region, place));
        (!is_barred).then_some((key, place))
    }

    /// The pieces that a place in a slot touches.
    pub(super) fn pieces_of(&self, region: RegionNumber, place: CacheSpan) -> PieceSet {
        let piece_log2 = self.regions.get(region).map_or(self.config.entry_log2, |region| region.piece_log2);
        let end = u64::from(place.offset) + u64::from(place.len);
        PieceSet::range(place.offset >> piece_log2..end.div_ceil(1 << piece_log2) as u32)
    }

    fn answer_from(
        &mut self,
        ask: &CacheRequest,
        key: EntryKey,
        place: CacheSpan,
        orders: &mut Vec<LoadOrder>,
    ) -> CacheVerdict {
        let needed = self.pieces_of(ask.region, place);
        let entry = &self.entries[place.slot as usize];
        let (is_here, missing) = (entry.valid.includes(needed), entry.missing(needed));
        self.visit(key, place.slot, needed);
        if is_here {
            return CacheVerdict::Hit(place);
        }
        for pieces in missing.runs() {
            orders.push(self.begin_load(key, place.slot, pieces, false));
        }
        let wait = self.loads.open_wait(ask.waiter, place);
        let mut number = self.entries[place.slot as usize].first_load;
        while let Some(load) = self.loads.get(number) {
            let next = load.next;
            if PieceSet::range(load.pieces.clone()).meets(needed) {
                self.loads.join(wait, number);
            }
            number = next;
        }
        let source = self.loads.source_of(wait);
        if source == FetchSource::Late
            && let Some(region) = self.regions.get_mut(ask.region)
        {
            region.read_ahead_paid(self.config.prefetch.depth_max);
        }
        self.count(ask, source);
        CacheVerdict::Waits
    }

    pub(super) fn begin_load(
        &mut self,
        key: EntryKey,
        slot: u32,
        pieces: core::ops::Range<u32>,
        is_ahead: bool,
    ) -> LoadOrder {
        let region = RegionNumber(key.region);
        let place = self.place_of(key, slot, pieces.clone());
        let offset = (key.entry << self.config.entry_log2) + u64::from(place.offset);
        let spoiled = self.writes_over(region, offset, place);
        let entry = &mut self.entries[slot as usize];
        entry.pins += 1;
        entry.loading = entry.loading.with(PieceSet::range(pieces.clone()));
        entry.spoiled = entry.spoiled.with(spoiled);
        let bytes = u64::from(place.len);
        let next = entry.first_load;
        let number = self.loads.begin(LoadPlan { slot, pieces, bytes, is_ahead, next });
        entry.first_load = number;
        match is_ahead {
            true => self.counters.prefetched_bytes += bytes,
            false => self.counters.demand_bytes += bytes,
        }
        LoadOrder { load: LoadId(number), region, offset, place, is_ahead }
    }

    /// Where pieces lie in a slot; the last one of a region may be short.
    pub(super) fn place_of(&self, key: EntryKey, slot: u32, pieces: core::ops::Range<u32>) -> CacheSpan {
        let Some(region) = self.regions.get(RegionNumber(key.region)) else {
            return CacheSpan { slot, offset: 0, len: 0 };
        };
        let start = u64::from(pieces.start) << region.piece_log2;
        let end = u64::from(pieces.end) << region.piece_log2;
        let end = end.min(region.entry_len(key.entry, self.config.entry_log2));
        CacheSpan { slot, offset: start as u32, len: end.saturating_sub(start) as u32 }
    }

    /// A load is over, well or not. Tells of the requests that waited for nothing else; each keeps its slot until
    /// it is released.
    pub fn finish(&mut self, load: LoadId, is_done: bool, ended: &mut Vec<EndedWait>) {
        let entries = &self.entries;
        let is_leaving = |slot: u32| entries[slot as usize].tenancy == super::entry::Tenancy::Leaving;
        let is_lost = self.loads.get(load.0).is_none_or(|load| is_leaving(load.slot));
        let Some(over) = self.loads.end(load.0, is_done && !is_lost, |end| ended.push(end)) else { return };
        self.unlink(over.slot, load.0, over.next);
        let pieces = PieceSet::range(over.pieces.clone());
        let entry = &mut self.entries[over.slot as usize];
        entry.loading = entry.loading.without(pieces);
        if is_done && !is_lost {
            let arrived =
                if mutant("paging.overtaken-load-is-valid") { pieces } else { pieces.without(entry.spoiled) };
            entry.valid = entry.valid.with(arrived);
            if over.is_ahead {
                entry.prefetched += arrived.count();
                entry.fresh = entry.fresh.with(arrived.without(entry.touched));
            }
        }
        entry.spoiled = entry.spoiled.without(pieces);
        self.release(over.slot);
    }

    /// Takes a load out of its slot's list.
    fn unlink(&mut self, slot: u32, number: u32, next: u32) {
        let first = &mut self.entries[slot as usize].first_load;
        if *first == number {
            *first = next;
            return;
        }
        let mut at = *first;
        while let Some(load) = self.loads.get_mut(at) {
            if load.next == number {
                load.next = next;
                return;
            }
            at = load.next;
        }
    }

    /// An answer has been copied out of a slot, or will not be.
    pub fn release(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        debug_assert!(entry.pins > 0, "slot {slot} is released more often than it was given");
        entry.pins = entry.pins.saturating_sub(1);
        self.free_if_left(slot);
    }

    /// The region of an entry.
    pub(super) fn region_of(&mut self, key: EntryKey) -> Option<&mut Region> {
        self.regions.get_mut(RegionNumber(key.region))
    }
}
