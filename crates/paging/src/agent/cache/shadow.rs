//! The cache played with keys only, to know how often it would hit.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use outboard_wire::Time;

use super::config::CacheConfig;
use super::load::{EndedWait, LoadId, LoadOrder};
use super::page_cache::{CacheRequest, CacheVerdict, PageCache};
use super::region::{RegionAttachment, RegionNumber};

/// How long a round trip takes in the model.
const ROUND_TRIP: Duration = Duration::from_micros(20);

/// A cache without bytes, whose loads take as long as the server would need.
#[derive(Clone, Debug)]
pub struct Shadow {
    cache: PageCache,
    /// By the number that the region has in the real cache.
    regions: BTreeMap<RegionNumber, RegionNumber>,
    /// Loads under way and when they arrive, the next one first.
    arriving: VecDeque<(Time, LoadId)>,
    wire_free_at: Time,
    orders: Vec<LoadOrder>,
    ended: Vec<EndedWait>,
}

impl Shadow {
    /// The shadow of a cache with these settings.
    pub fn new(config: CacheConfig) -> Self {
        Self {
            cache: PageCache::new(config),
            regions: BTreeMap::new(),
            arriving: VecDeque::new(),
            wire_free_at: Time::ZERO,
            orders: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// A region is to be played too, under the number that it has in the real cache.
    pub fn attach(&mut self, number: RegionNumber, attachment: &RegionAttachment) {
        self.detach(number);
        if let Ok(played) = self.cache.attach(attachment) {
            self.regions.insert(number, played);
        }
    }

    /// A region is no longer played.
    pub fn detach(&mut self, number: RegionNumber) {
        if let Some(known) = self.regions.remove(&number) {
            self.cache.invalidate(known);
            self.cache.detach(known);
        }
    }

    /// A write-back passes.
    pub fn written(&mut self, number: RegionNumber, offset: u64, len: u32) {
        if let Some(known) = self.regions.get(&number).copied() {
            let (write, _) = self.cache.write_begins(known, offset, len);
            self.cache.write_ends(write, true);
        }
    }

    /// Plays a request; returns whether it would have hit. `ns_per_byte` is what the server needs at present.
    pub fn request(&mut self, now: Time, ask: &CacheRequest, ns_per_byte: f64) -> bool {
        let Some(region) = self.regions.get(&ask.region).copied() else { return false };
        self.arrive(now);
        let verdict = self.cache.request(&CacheRequest { region, ..*ask }, &mut self.orders);
        if let CacheVerdict::Hit(place) = verdict {
            self.cache.release(place.slot);
        }
        while let Some(order) = self.orders.pop() {
            self.send(now, &order, ns_per_byte);
        }
        while let Some(order) = self.cache.next_ahead(|_| true) {
            self.send(now, &order, ns_per_byte);
        }
        matches!(verdict, CacheVerdict::Hit(_))
    }

    fn send(&mut self, now: Time, order: &LoadOrder, ns_per_byte: f64) {
        let takes = Duration::from_nanos((f64::from(order.place.len) * ns_per_byte) as u64);
        self.wire_free_at = self.wire_free_at.max(now) + takes;
        self.arriving.push_back((self.wire_free_at + ROUND_TRIP, order.load));
    }

    fn arrive(&mut self, now: Time) {
        while let Some((_, load)) = self.arriving.front().copied().filter(|(at, _)| *at <= now) {
            self.arriving.pop_front();
            self.cache.finish(load, true, &mut self.ended);
        }
        for end in self.ended.drain(..) {
            self.cache.release(end.place.slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use outboard_wire::{Generation, Incarnation, RegionId};

    use super::super::region::RegionIdentity;
    use super::*;

    #[test]
    fn regions_that_come_and_go_leave_nothing_behind() {
        let config = CacheConfig::default();
        let (mut cache, mut shadow) = (PageCache::new(config), Shadow::new(config));
        for region in 0..1000 {
            let (server, generation) = (Incarnation(1), Generation(1));
            let name = RegionIdentity { server, region: RegionId(region), generation };
            let attachment =
                RegionAttachment { name, size: 1 << 16, chunk_log2: 12, is_writable: true, epoch: 1 };
            let number = cache.attach(&attachment).unwrap();
            shadow.attach(number, &attachment);
            assert_eq!(shadow.regions.len(), 1);
            shadow.detach(number);
            cache.detach(number);
        }
        assert!(shadow.regions.is_empty());
    }
}
