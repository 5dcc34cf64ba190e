//! Regions come, are shared, and go.

use outboard_wire::paging::{FetchSource, Urgency};

use super::support::attachment;
use crate::agent::cache::{
    AttachError, CacheConfig, CacheRequest, CacheVerdict, EndedWait, PageCache, PrefetchConfig,
    RegionAttachment, RegionNumber, WaiterId,
};

fn cache(slots: u32) -> PageCache {
    let prefetch = PrefetchConfig { depth_max: 0, ..PrefetchConfig::default() };
    PageCache::new(CacheConfig { slots, entry_log2: 16, regions_max: 2, prefetch })
}

fn ask(region: RegionNumber, offset: u64) -> CacheRequest {
    CacheRequest { region, offset, len: 4096, urgency: Urgency::Demand, waiter: WaiterId(offset) }
}

/// Asks, and loads what is missing at once.
fn fetch(cache: &mut PageCache, region: RegionNumber, offset: u64) -> FetchSource {
    let (mut orders, mut ended) = (Vec::new(), Vec::new());
    match cache.request(&ask(region, offset), &mut orders) {
        CacheVerdict::Hit(place) => {
            cache.release(place.slot);
            FetchSource::Hit
        }
        CacheVerdict::Waits => {
            orders.iter().for_each(|order| cache.finish(order.load, true, &mut ended));
            cache.release(ended[0].place.slot);
            ended[0].source.unwrap()
        }
        _ => FetchSource::Uncached,
    }
}

#[test]
fn applications_share_what_they_have_attached() {
    let mut cache = cache(4);
    let first = cache.attach(&attachment(1, 1 << 20)).unwrap();
    assert_eq!(fetch(&mut cache, first, 0), FetchSource::Miss);
    let second = cache.attach(&attachment(1, 1 << 20)).unwrap();
    assert_eq!(first, second);
    assert_eq!(fetch(&mut cache, second, 0), FetchSource::Hit);
    cache.detach(first);
    cache.detach(second);
    let third = cache.attach(&attachment(1, 1 << 20)).unwrap();
    assert_eq!(fetch(&mut cache, third, 0), FetchSource::Hit, "bytes that no process can have written stay");
    let elsewhere = cache.attach(&attachment(2, 1 << 20)).unwrap();
    assert_eq!(fetch(&mut cache, elsewhere, 0), FetchSource::Miss);
    assert_eq!(cache.counters().demand.total(), 4);
}

#[test]
fn what_may_have_been_written_meanwhile_does_not_stay() {
    let mut cache = cache(4);
    let writable = RegionAttachment { is_writable: true, ..attachment(1, 1 << 20) };
    let region = cache.attach(&writable).unwrap();
    fetch(&mut cache, region, 0);
    cache.detach(region);
    assert_eq!((cache.used_slots(), cache.regions().count()), (0, 0));
    let region = cache.attach(&writable).unwrap();
    fetch(&mut cache, region, 0);
    let later = RegionAttachment { epoch: 2, ..writable };
    assert_eq!(cache.attach(&later), Ok(region));
    assert_eq!(fetch(&mut cache, region, 0), FetchSource::Miss, "a new epoch");
    let refused = cache.attach(&writable);
    assert_eq!(refused, Err(AttachError::StaleEpoch { known: 2, epoch: 1 }));
    let refused = cache.attach(&RegionAttachment { size: 5, ..later });
    assert_eq!(refused, Err(AttachError::OtherSize { known: 1 << 20, size: 5 }));
}

#[test]
fn room_for_regions_is_made_of_unused_ones() {
    let mut cache = cache(4);
    let first = cache.attach(&attachment(1, 1 << 20)).unwrap();
    let second = cache.attach(&attachment(2, 1 << 20)).unwrap();
    fetch(&mut cache, first, 0);
    assert_eq!(cache.attach(&attachment(3, 1 << 20)), Err(AttachError::TooMany { max: 2 }));
    cache.detach(first);
    let third = cache.attach(&attachment(3, 1 << 20)).unwrap();
    assert_ne!(third, second);
    assert_eq!(fetch(&mut cache, third, 0), FetchSource::Miss);
}

#[test]
fn a_region_that_goes_in_the_middle_leaves_nothing_behind() {
    let mut cache = cache(2);
    let writable = RegionAttachment { is_writable: true, ..attachment(1, 1 << 20) };
    let region = cache.attach(&writable).unwrap();
    let (mut orders, mut ended) = (Vec::new(), Vec::new());
    assert_eq!(cache.request(&ask(region, 0), &mut orders), CacheVerdict::Waits);
    assert_eq!(
        cache.request(&CacheRequest { waiter: WaiterId(9), ..ask(region, 0) }, &mut orders),
        CacheVerdict::Waits
    );
    assert_eq!(orders.len(), 1, "the second joins the first");
    cache.detach(region);
    assert_eq!((cache.used_slots(), cache.pins()), (1, 3), "bytes may still arrive in the slot");
    let again = cache.attach(&writable).unwrap();
    cache.finish(orders[0].load, true, &mut ended);
    let failed = |end: &EndedWait| end.source.is_none();
    assert!(ended.len() == 2 && ended.iter().all(failed), "{ended:?}");
    ended.iter().for_each(|end| cache.release(end.place.slot));
    assert_eq!((cache.used_slots(), cache.pins()), (0, 0));
    assert_eq!(fetch(&mut cache, again, 0), FetchSource::Miss);
}

#[test]
fn without_a_place_bytes_are_not_cached() {
    let mut cache = cache(1);
    let region = cache.attach(&attachment(1, 1 << 20)).unwrap();
    let mut orders = Vec::new();
    assert_eq!(cache.request(&ask(region, 0), &mut orders), CacheVerdict::Waits);
    assert_eq!(cache.request(&ask(region, 1 << 16), &mut orders), CacheVerdict::Uncached);
    assert_eq!(
        cache.request(&ask(region, (1 << 16) - 100), &mut orders),
        CacheVerdict::Uncached,
        "two entries"
    );
    for (offset, len) in [(1 << 20, 1), ((1 << 20) - 1, 2), (u64::MAX, 2), (0, 0)] {
        let outside = CacheRequest { offset, len, ..ask(region, 0) };
        assert_eq!(cache.request(&outside, &mut orders), CacheVerdict::OutOfBounds, "{offset}+{len}");
    }
    assert_eq!(orders.len(), 1);
}
