//! How often entries are found that were evicted by chance, by CLOCK, and as the cache does it.

use std::collections::HashMap;

use fastrand::Rng;
use outboard_wire::paging::Urgency;

use super::support::attachment;
use crate::agent::cache::{
    CacheConfig, CacheRequest, CacheVerdict, PageCache, PrefetchConfig, RegionNumber, WaiterId,
};

const SLOTS: usize = 64;
/// A request asks for a quarter of an entry.
const PIECES: u64 = 4;

/// Requests by entry and piece.
type Trace = Vec<(u64, u64)>;

trait Policy {
    fn is_hit(&mut self, entry: u64, piece: u64) -> bool;
}

/// Evicts any entry.
struct Random {
    slots: Vec<(u64, u64)>,
    random: Rng,
}

impl Policy for Random {
    fn is_hit(&mut self, entry: u64, piece: u64) -> bool {
        if let Some((_, pieces)) = self.slots.iter_mut().find(|(there, _)| *there == entry) {
            let is_hit = *pieces & (1 << piece) != 0;
            *pieces |= 1 << piece;
            return is_hit;
        }
        if self.slots.len() == SLOTS {
            self.slots.swap_remove(self.random.usize(..SLOTS));
        }
        self.slots.push((entry, 1 << piece));
        false
    }
}

/// Evicts the first entry that was not used since the hand passed.
#[derive(Default)]
struct Clock {
    slots: Vec<(u64, u64, bool)>,
    hand: usize,
}

impl Policy for Clock {
    fn is_hit(&mut self, entry: u64, piece: u64) -> bool {
        if let Some((_, pieces, is_used)) = self.slots.iter_mut().find(|(there, ..)| *there == entry) {
            let is_hit = *pieces & (1 << piece) != 0;
            *pieces |= 1 << piece;
            *is_used = true;
            return is_hit;
        }
        let new = (entry, 1 << piece, false);
        if self.slots.len() < SLOTS {
            self.slots.push(new);
            return false;
        }
        while std::mem::take(&mut self.slots[self.hand].2) {
            self.hand = (self.hand + 1) % SLOTS;
        }
        self.slots[self.hand] = new;
        self.hand = (self.hand + 1) % SLOTS;
        false
    }
}

/// The cache itself, with nothing read ahead.
struct Ours {
    cache: PageCache,
    region: RegionNumber,
}

impl Ours {
    fn new() -> Self {
        let prefetch = PrefetchConfig { depth_max: 0, ..PrefetchConfig::default() };
        let config = CacheConfig { slots: SLOTS as u32, entry_log2: 14, prefetch, ..CacheConfig::default() };
        let mut cache = PageCache::new(config);
        let region = cache.attach(&attachment(1, 1 << 40)).unwrap();
        Self { cache, region }
    }
}

impl Policy for Ours {
    fn is_hit(&mut self, entry: u64, piece: u64) -> bool {
        let (mut orders, mut ended) = (Vec::new(), Vec::new());
        let ask = CacheRequest {
            region: self.region,
            offset: (entry * PIECES + piece) << 12,
            len: 1 << 12,
            urgency: Urgency::Demand,
            waiter: WaiterId(0),
        };
        let verdict = self.cache.request(&ask, &mut orders);
        orders.iter().for_each(|order| self.cache.finish(order.load, true, &mut ended));
        match verdict {
            CacheVerdict::Hit(place) => self.cache.release(place.slot),
            _ => self.cache.release(ended[0].place.slot),
        }
        matches!(verdict, CacheVerdict::Hit(_))
    }
}

fn hit_rate(policy: &mut dyn Policy, trace: &Trace) -> f64 {
    let hits = trace.iter().filter(|(entry, piece)| policy.is_hit(*entry, *piece)).count();
    hits as f64 / trace.len() as f64
}

fn scan(entries: std::ops::Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    entries.flat_map(|entry| (0..PIECES).map(move |piece| (entry, piece)))
}

/// An entry below `count`, the first ones much more often.
fn skewed(random: &mut Rng, count: u64) -> (u64, u64) {
    let entry = (count as f64).powf(random.f64()) as u64;
    (entry.min(count) - 1, random.u64(..PIECES))
}

fn traces() -> Vec<(&'static str, Trace)> {
    let random = &mut Rng::with_seed(11);
    let loops = |entries: u64| (0..40).flat_map(|_| scan(0..entries)).collect::<Trace>();
    let uniform = (0..40_000).map(|_| (random.u64(..128), random.u64(..PIECES))).collect();
    let popular = (0..40_000).map(|_| skewed(random, 1024)).collect();
    let mut mixed = Trace::new();
    for (index, scanned) in scan(10_000..15_000).enumerate() {
        mixed.push(scanned);
        mixed.push(skewed(random, 256));
        if index % 2 == 0 {
            mixed.push(skewed(random, 256));
        }
    }
    let moving = (0..40_000).map(|at| (1000 * (at / 8000) + random.u64(..48), random.u64(..PIECES)));
    let moving = moving.collect();
    let both = |at: u64| scan(at..at + 1).chain(scan((at + 125) % 128..(at + 125) % 128 + 1));
    let pair = (0..20).flat_map(|_| (0..128).flat_map(both)).collect();
    vec![
        ("the same 96 entries again and again", loops(96)),
        ("the same 256 entries again and again", loops(256)),
        ("any of 128 entries", uniform),
        ("1024 entries, some more popular", popular),
        ("256 entries, some more popular, beside a scan", mixed),
        ("any of 48 entries, others after a while", moving),
        ("128 entries again and again, by two, one behind the other", pair),
    ]
}

#[test]
fn eviction_is_better_than_chance_and_than_recency_where_it_matters() {
    println!("| trace, cache of {SLOTS} entries | random | CLOCK | this |\n|---|---|---|---|");
    for (name, trace) in traces() {
        let chance = hit_rate(&mut Random { slots: Vec::new(), random: Rng::with_seed(3) }, &trace);
        let clock = hit_rate(&mut Clock::default(), &trace);
        let ours = hit_rate(&mut Ours::new(), &trace);
        println!("| {name} | {chance:.2} | {clock:.2} | {ours:.2} |");
        let worst = 0.03;
        assert!(
            ours >= chance - worst && ours >= clock - worst,
            "{name}: {ours:.3}, {chance:.3}, {clock:.3}"
        );
    }
}

#[test]
fn a_part_of_what_is_read_again_and_again_stays() {
    let trace: Trace = (0..40).flat_map(|_| scan(0..128)).collect();
    let ours = hit_rate(&mut Ours::new(), &trace);
    assert!(ours > 0.38, "half of it fits, and {ours:.2} was found");
}

/// The reference policies are no straw men: on what fits, all find everything.
#[test]
fn what_fits_is_found() {
    let trace: Trace = (0..10).flat_map(|_| scan(0..48)).collect();
    let policies: [Box<dyn Policy>; 3] = [
        Box::new(Random { slots: Vec::new(), random: Rng::with_seed(3) }),
        Box::<Clock>::default(),
        Box::new(Ours::new()),
    ];
    for mut policy in policies {
        let mut hits = HashMap::new();
        trace.iter().for_each(|at| *hits.entry(policy.is_hit(at.0, at.1)).or_insert(0) += 1);
        assert_eq!((hits[&true], hits[&false]), (9 * 48 * 4, 48 * 4));
    }
}
