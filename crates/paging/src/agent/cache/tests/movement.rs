//! The entries that are read ahead, and those that are not.

use std::collections::VecDeque;

use fastrand::Rng;
use outboard_wire::paging::{FetchSource, Urgency};

use super::support::attachment;
use crate::agent::cache::{
    CacheConfig, CacheRequest, CacheVerdict, EndedWait, LoadOrder, PageCache, PrefetchConfig, RegionNumber,
    WaiterId,
};

const CHUNK: u64 = 1 << 12;
/// Chunks in an entry.
const ENTRY: u64 = 16;
const REGION: u64 = 1024 * ENTRY;

/// A cache whose loads arrive after so many further requests.
struct Bench {
    cache: PageCache,
    region: RegionNumber,
    arriving: VecDeque<(u64, LoadOrder)>,
    requests: u64,
    delay: u64,
}

impl Bench {
    fn new(slots: u32, delay: u64, prefetch: PrefetchConfig) -> Self {
        let mut cache =
            PageCache::new(CacheConfig { slots, entry_log2: 16, prefetch, ..CacheConfig::default() });
        let region = cache.attach(&attachment(1, REGION * CHUNK)).unwrap();
        Self { cache, region, arriving: VecDeque::new(), requests: 0, delay }
    }

    fn ask(&self, chunk: u64) -> CacheRequest {
        let (offset, len) = (chunk * CHUNK, CHUNK as u32);
        CacheRequest { region: self.region, offset, len, urgency: Urgency::Demand, waiter: WaiterId(chunk) }
    }

    /// Asks for a chunk, and for more when it is there: as a thread does that touches one after the other.
    fn touch(&mut self, chunk: u64) {
        self.requests += 1;
        let mut orders = Vec::new();
        let verdict = self.cache.request(&self.ask(chunk), &mut orders);
        if let CacheVerdict::Hit(place) = verdict {
            self.cache.release(place.slot);
        }
        let at = self.requests + self.delay;
        self.arriving.extend(orders.drain(..).map(|order| (at, order)));
        let mut is_waiting = verdict == CacheVerdict::Waits;
        while is_waiting {
            let (_, order) = self.arriving.pop_front().expect("it waits for something");
            is_waiting = !self.finish(&order).iter().any(|end| end.waiter == WaiterId(chunk));
        }
        while let Some(order) = self.cache.next_ahead(|_| true) {
            self.arriving.push_back((at, order));
        }
        while let Some((_, order)) = self.arriving.front().copied().filter(|(at, _)| *at <= self.requests) {
            self.arriving.pop_front();
            self.finish(&order);
        }
    }

    fn finish(&mut self, order: &LoadOrder) -> Vec<EndedWait> {
        let mut ended = Vec::new();
        self.cache.finish(order.load, true, &mut ended);
        ended.iter().for_each(|end| self.cache.release(end.place.slot));
        ended
    }

    fn hit_rate(&self) -> f64 {
        self.cache.counters().demand.hit_rate().unwrap_or(0.0)
    }

    /// The bytes that were read ahead for each byte that was asked for.
    fn effort(&self) -> f64 {
        self.cache.counters().prefetched_bytes as f64 / (self.requests * CHUNK) as f64
    }
}

fn eager() -> PrefetchConfig {
    PrefetchConfig { in_flight_max: 1 << 20, ..PrefetchConfig::default() }
}

#[test]
fn a_scan_hits_what_was_read_ahead() {
    for delay in [1, 4, 16] {
        let mut bench = Bench::new(64, delay, eager());
        (0..4096).for_each(|chunk| bench.touch(chunk));
        assert!(bench.hit_rate() > 0.95, "{delay}: {:?}", bench.cache.counters());
        assert!(bench.effort() < 1.1, "{delay}: {:?}", bench.cache.counters());
    }
}

#[test]
fn a_scan_backwards_and_one_by_steps_hit_too() {
    let mut bench = Bench::new(64, 4, eager());
    (0..4096).rev().for_each(|chunk| bench.touch(chunk));
    assert!(bench.hit_rate() > 0.95, "{:?}", bench.cache.counters());
    let mut bench = Bench::new(64, 2, eager());
    (0..200).for_each(|step| bench.touch(step * 3 * ENTRY + 5));
    assert!(bench.hit_rate() > 0.9, "{:?}", bench.cache.counters());
    assert!(bench.effort() < 1.5, "only what is touched of each entry: {:?}", bench.cache.counters());
}

#[test]
fn several_scans_at_once_are_told_apart() {
    let mut bench = Bench::new(64, 8, eager());
    for step in 0..1024 {
        (0..6).for_each(|thread| bench.touch(thread * 2048 + step));
    }
    assert!(bench.hit_rate() > 0.9, "{:?}", bench.cache.counters());
}

#[test]
fn accesses_without_a_pattern_are_not_made_dearer_for_long() {
    let mut bench = Bench::new(64, 4, eager());
    let mut random = Rng::with_seed(2);
    (0..20_000).for_each(|_| bench.touch(random.u64(..REGION)));
    assert!(bench.effort() < 0.2, "{:?}", bench.cache.counters());
}

#[test]
fn depth_follows_success() {
    let mut bench = Bench::new(64, 4, PrefetchConfig { depth_max: 4, ..eager() });
    (0..ENTRY).for_each(|chunk| bench.touch(chunk));
    assert!(bench.cache.regions.get(bench.region).unwrap().depth <= 2);
    (ENTRY..8 * ENTRY).for_each(|chunk| bench.touch(chunk));
    assert_eq!(bench.cache.regions.get(bench.region).unwrap().depth, 4);
    // Movements that break off: two chunks at the beginning of every tenth entry or so.
    for start in 50..250 {
        bench.touch(((start * 37) % 1000) * ENTRY);
        bench.touch(((start * 37) % 1000) * ENTRY + 1);
    }
    let depth = bench.cache.regions.get(bench.region).unwrap().depth;
    assert!(depth < 4 && bench.cache.counters().unused_bytes > 0, "{depth} {:?}", bench.cache.counters());
}

#[test]
fn what_was_read_ahead_too_late_is_said_so() {
    let mut bench = Bench::new(64, 1000, eager());
    (0..64).for_each(|chunk| bench.touch(chunk));
    let counters = bench.cache.counters();
    assert!(counters.demand.late > 3 && counters.demand.misses < 10, "{counters:?}");
}

#[test]
fn requests_go_first_and_little_is_under_way_ahead_of_them() {
    let prefetch =
        PrefetchConfig { in_flight_max: 3 * CHUNK, read_max: CHUNK as u32, demand_max: 2, ..eager() };
    let mut bench = Bench::new(64, 4, prefetch);
    let (mut orders, mut ended) = (Vec::new(), Vec::new());
    for chunk in [0, 1] {
        assert_eq!(bench.cache.request(&bench.ask(chunk), &mut orders), CacheVerdict::Waits);
    }
    for chunk in [400, 800, 1600] {
        bench.cache.request(&bench.ask(chunk), &mut orders);
    }
    assert_eq!(bench.cache.next_ahead(|_| true), None, "five loads are awaited");
    orders.iter().for_each(|order| bench.cache.finish(order.load, true, &mut ended));
    assert!(ended.iter().all(|end| end.source == Some(FetchSource::Miss)));
    assert_eq!(bench.cache.next_ahead(|_| false), None, "no client can read the region");
    let ahead: Vec<LoadOrder> = std::iter::from_fn(|| bench.cache.next_ahead(|_| true)).collect();
    assert_eq!(ahead.iter().map(|order| order.offset / CHUNK).collect::<Vec<_>>(), [2, 3, 4]);
}

#[test]
fn nothing_is_read_ahead_when_it_is_turned_off() {
    let mut bench = Bench::new(64, 4, PrefetchConfig { depth_max: 0, ..eager() });
    (0..256).for_each(|chunk| bench.touch(chunk));
    assert_eq!((bench.hit_rate(), bench.effort()), (0.0, 0.0));
}
