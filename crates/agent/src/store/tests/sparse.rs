//! Regions that take of the capacity only what is written.

use outboard_paging::server::Home;
use outboard_wire::paging::{PagingStatus, WriteBack};

use super::*;

const UNIT: u64 = 1 << 16;

fn reserve_sparse(store: &mut RegionStore, size: u64) -> ControlAnswer {
    let (name, sharing) = (Text::new("sparse"), RegionSharing::Leased);
    store.answer(NOW, ONE, &Question::ReserveSparse { size, chunk_log2: 12, name, sharing })
}

fn back(descriptor: &RegionDescriptor, offset: u64, length: u32) -> WriteBack {
    let Grant { region, generation, key, .. } = descriptor.grant;
    WriteBack { region, generation, key, epoch: descriptor.epoch, offset, length }
}

fn write(store: &RegionStore, descriptor: &RegionDescriptor, offset: u64) -> PagingStatus {
    let gate = store.gate(descriptor.grant.region).unwrap();
    gate.write_back(&back(descriptor, offset, 4), b"data"[..].into()).0
}

#[test]
fn what_is_written_counts_until_nothing_is_left_and_what_is_discarded_no_more() {
    let mut store = store();
    let sparse = region(reserve_sparse(&mut store, 1 << 40));
    assert_eq!((store.used(), sparse.grant.size), (0, 1 << 40));
    for unit in 0..CAPACITY / UNIT {
        assert_eq!(write(&store, &sparse, unit * 1000 * UNIT + 5), PagingStatus::Done);
    }
    assert_eq!(store.used(), CAPACITY);
    assert_eq!(write(&store, &sparse, 7 * UNIT), PagingStatus::NoRoom);
    assert_eq!(write(&store, &sparse, 3000 * UNIT), PagingStatus::Done, "it has been counted");
    assert_eq!(failure(&reserve(&mut store, OTHER, 1, "more")), Some(ControlFailure::NoCapacity));
    let gate = Arc::clone(store.gate(sparse.grant.region).unwrap());
    assert_eq!(gate.discard(&back(&sparse, 3000 * UNIT, UNIT as u32)).0, PagingStatus::Done);
    assert_eq!(write(&store, &sparse, 7 * UNIT), PagingStatus::Done);
    // What remains of a gate counts no more once the region is gone and no thread uses it.
    free(&mut store, ONE, &sparse.grant);
    drop(gate);
    assert_eq!(store.used(), 0);
    region(reserve(&mut store, OTHER, CAPACITY, "all"));
    assert_eq!(failure(&reserve_sparse(&mut store, 1)), Some(ControlFailure::NoCapacity));
}

#[test]
fn what_is_written_past_write_backs_is_counted_when_room_is_asked_for() {
    let mut store = store();
    let sparse = region(reserve_sparse(&mut store, 1 << 30));
    let memory = Arc::clone(&store.gate(sparse.grant.region).unwrap().memory);
    (0..CAPACITY / 2 / UNIT)
        .for_each(|unit| memory.window_mut((unit * UNIT) as usize, 65_536).write(0, &[1; 65_536]));
    assert_eq!(store.used(), 0);
    assert_eq!(failure(&reserve(&mut store, OTHER, CAPACITY, "all")), Some(ControlFailure::NoCapacity));
    assert!(store.used() >= CAPACITY / 2, "{}", store.used());
}

#[test]
fn a_region_that_is_made_whole_is_counted_as_a_whole() {
    let mut store = store();
    let sparse = region(reserve_sparse(&mut store, CAPACITY / 2));
    let Grant { region: id, generation, key, .. } = sparse.grant;
    assert!(store.whole_memory(id, generation, &key).is_ok());
    assert_eq!(store.used(), CAPACITY / 2);
    free(&mut store, ONE, &sparse.grant);
    let large = region(reserve_sparse(&mut store, 2 * CAPACITY));
    let Grant { region: id, generation, key, .. } = large.grant;
    let refused = store.whole_memory(id, generation, &key).err().map(|(failure, _)| failure);
    assert_eq!(refused, Some(ControlFailure::NoCapacity));
}
