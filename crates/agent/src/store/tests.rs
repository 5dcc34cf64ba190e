//! The store against a simple model, and its refusals.

use outboard_wire::{Grant, RegionDescriptor, Text};
use proptest::prelude::*;

use super::*;

mod absence;
mod leases;
mod sparse;

const NOW: Time = Time::ZERO;
const LINGER: Duration = Duration::from_secs(30);
const CAPACITY: u64 = 1 << 20;
const BOTH: Rights = Rights::READ.and(Rights::WRITE);
const ONE: Incarnation = Incarnation(1);
const OTHER: Incarnation = Incarnation(2);
const THIRD: Incarnation = Incarnation(3);

/// A store with three processes, each with one link.
fn store() -> RegionStore {
    let config = StoreConfig {
        server: ServerId(7),
        incarnation: Incarnation(9),
        capacity: CAPACITY,
        regions_max: 300,
        linger: LINGER,
    };
    let mut store = RegionStore::new(config, Exports::new());
    for process in [ONE, OTHER, THIRD] {
        store.link_opened(NOW, process, 100 + process.0 as u32, &format!("application “{}”", process.0));
    }
    store
}

fn reserve(store: &mut RegionStore, process: Incarnation, size: u64, name: &str) -> ControlAnswer {
    let (name, sharing) = (Text::new(name), RegionSharing::Leased);
    store.answer(NOW, process, &Question::Reserve { size, chunk_log2: 16, name, sharing })
}

fn open(store: &mut RegionStore, process: Incarnation, name: &str, rights: Rights) -> ControlAnswer {
    open_as(store, process, name, (rights, RegionSharing::Leased))
}

fn open_as(
    store: &mut RegionStore,
    process: Incarnation,
    name: &str,
    (rights, sharing): (Rights, RegionSharing),
) -> ControlAnswer {
    store.answer(NOW, process, &Question::OpenNamed { name: Text::new(name), rights, sharing })
}

fn free(store: &mut RegionStore, process: Incarnation, grant: &Grant) -> ControlAnswer {
    let Grant { region, generation, key, .. } = *grant;
    store.answer(NOW, process, &Question::Free { region, generation, key })
}

fn release(store: &mut RegionStore, process: Incarnation, grant: &Grant) -> ControlAnswer {
    let Grant { region, generation, .. } = *grant;
    store.answer(NOW, process, &Question::Release { region, generation })
}

fn failure(answer: &ControlAnswer) -> Option<ControlFailure> {
    if let ControlAnswer::Failed { failure, .. } = answer { Some(*failure) } else { None }
}

fn detail(answer: &ControlAnswer) -> String {
    if let ControlAnswer::Failed { detail, .. } = answer { detail.to_string() } else { String::new() }
}

#[track_caller]
fn region(answer: ControlAnswer) -> RegionDescriptor {
    match answer {
        ControlAnswer::Region(descriptor) => descriptor,
        other => panic!("expected a region, got {other:?}"),
    }
}

#[test]
fn a_region_is_described_with_its_server_and_incarnation() {
    let mut store = store();
    let descriptor = region(reserve(&mut store, ONE, 5000, ""));
    assert_eq!(descriptor.check(), Ok(()));
    assert_eq!((descriptor.grant.size, store.used()), (5000, 8192));
    assert_eq!(
        (descriptor.extents[0].server, descriptor.extents[0].incarnation),
        (ServerId(7), Incarnation(9))
    );
}

#[test]
fn more_than_is_left_is_refused_and_nothing_is_lost() {
    let mut store = store();
    region(reserve(&mut store, ONE, CAPACITY - 4096, ""));
    for size in [8192, u64::MAX, i64::MAX as u64] {
        let answer = reserve(&mut store, ONE, size, "");
        assert_eq!(failure(&answer), Some(ControlFailure::NoCapacity));
        let detail = detail(&answer);
        for number in [size, 4096, CAPACITY - 4096, CAPACITY] {
            assert!(detail.contains(&show_bytes(number)), "{detail}");
        }
    }
    assert_eq!(failure(&reserve(&mut store, ONE, 0, "")), Some(ControlFailure::BadRequest));
    region(reserve(&mut store, ONE, 4096, ""));
    assert_eq!(store.used(), CAPACITY);
}

#[test]
fn a_named_region_outlives_its_client_and_opens_with_the_rights_asked() {
    let mut store = store();
    let first = region(reserve(&mut store, ONE, 4096, "graph"));
    assert_eq!(failure(&reserve(&mut store, OTHER, 4096, "graph")), Some(ControlFailure::NameTaken));
    assert_eq!(store.link_lost(NOW, ONE, Parting::Goodbye), 0);
    let reader = region(open(&mut store, OTHER, "graph", Rights::READ)).grant;
    assert_eq!(reader.rights, Rights::READ);
    assert_ne!(reader.key, first.grant.key);
    let caller = region(open(&mut store, OTHER, "graph", Rights::CALL)).grant;
    assert_eq!(caller.rights, Rights::READ.and(Rights::CALL));
    assert_eq!(region(open(&mut store, OTHER, "graph", BOTH)).grant, first.grant);
    for grant in [&reader, &caller] {
        assert_eq!(failure(&free(&mut store, OTHER, grant)), Some(ControlFailure::NoSuchRegion));
    }
    assert_eq!(free(&mut store, OTHER, &first.grant), ControlAnswer::Freed);
    assert_eq!((store.used(), store.count()), (0, 0));
    region(reserve(&mut store, THIRD, 4096, "graph"));
}

#[test]
fn there_are_only_so_many_regions_and_plain_names() {
    let mut store = store();
    store.capacity = Capacity::new(1 << 30);
    for _ in 0..300 {
        region(reserve(&mut store, ONE, 4096, ""));
    }
    assert_eq!(failure(&reserve(&mut store, ONE, 4096, "")), Some(ControlFailure::NoCapacity));
    store.link_lost(NOW, ONE, Parting::Goodbye);
    store.link_opened(NOW, ONE, 100, "again");
    assert_eq!(failure(&reserve(&mut store, ONE, 4096, "a\x1b[31m")), Some(ControlFailure::BadRequest));
    region(reserve(&mut store, ONE, 4096, "red"));
}

#[test]
fn a_file_is_loaded_once_and_shared_until_it_is_freed() {
    let mut store = store();
    let plan = |store: &mut RegionStore| store.begin_load("a/web.bin", 5000).unwrap();
    let (first, second) = (plan(&mut store), plan(&mut store));
    assert_eq!(store.used(), 2 * 8192);
    let (read, write) = ((Rights::READ, RegionSharing::Leased), (BOTH, RegionSharing::Leased));
    let loaded = region(store.finish_load(ONE, first, read, Ok(())));
    assert_eq!((loaded.grant.size, loaded.grant.rights, loaded.check()), (5000, Rights::READ, Ok(())));
    let same = region(store.finish_load(OTHER, second, read, Ok(())));
    assert_eq!((same.grant, store.used()), (loaded.grant, 8192));
    assert_eq!(store.link_lost(NOW, ONE, Parting::Goodbye), 0);
    assert_eq!(region(open(&mut store, OTHER, "file:a/web.bin", Rights::READ)), loaded);
    assert_eq!(failure(&reserve(&mut store, OTHER, 4096, "file:mine")), Some(ControlFailure::BadRequest));
    let full = region(store.loaded(OTHER, "a/web.bin", write).unwrap());
    assert_eq!(free(&mut store, OTHER, &full.grant), ControlAnswer::Freed);
    assert_eq!((store.used(), store.loaded(OTHER, "a/web.bin", read)), (0, None));
}

#[test]
fn a_client_that_has_gone_while_its_file_was_read_leaves_it_to_the_next() {
    let mut store = store();
    let plan = store.begin_load("web.bin", 5000).unwrap();
    store.link_lost(NOW, ONE, Parting::Goodbye);
    let how = (BOTH, RegionSharing::Leased);
    assert_eq!(failure(&store.finish_load(ONE, plan, how, Ok(()))), Some(ControlFailure::BadRequest));
    region(store.loaded(OTHER, "web.bin", how).unwrap());
    assert_eq!(store.used(), 8192);
}

#[test]
fn a_file_that_cannot_be_read_gives_its_room_back() {
    let mut store = store();
    let plan = store.begin_load("web.bin", 5000).unwrap();
    let (how, short) =
        ((Rights::READ, RegionSharing::Leased), (ControlFailure::NoSuchFile, "it ends early".to_owned()));
    let answer = store.finish_load(ONE, plan, how, Err(short));
    assert_eq!((failure(&answer), store.used()), (Some(ControlFailure::NoSuchFile), 0));
    assert!(matches!(store.begin_load("web.bin", 1 << 40), Err((ControlFailure::NoCapacity, _))));
}

#[test]
fn a_long_list_comes_in_pages() {
    let mut store = store();
    for _ in 0..LIST_MAX {
        region(reserve(&mut store, ONE, 4096, ""));
    }
    let ControlAnswer::Regions { regions, more } =
        store.answer(NOW, ONE, &Question::List { after: RegionId(0) })
    else {
        panic!("a list is answered with a list");
    };
    assert_eq!((regions.len(), more), (LIST_MAX, false));
    let ControlAnswer::Regions { regions, .. } =
        store.answer(NOW, ONE, &Question::List { after: regions[9].region })
    else {
        panic!("a list is answered with a list");
    };
    assert_eq!(regions.len(), LIST_MAX - 10);
}

proptest! {
    #[test]
    fn capacity_is_always_what_the_living_hold(
        steps in prop::collection::vec((1u64..4, 0u64..40_000, 0u8..3), 1..60)
    ) {
        let mut store = store();
        let mut model: Vec<(u64, u64, Grant)> = Vec::new();
        for (client, size, what) in steps {
            let process = Incarnation(client);
            match what {
                0 => {
                    let used: u64 = model.iter().map(|(_, size, _)| size).sum();
                    let rounded = size.next_multiple_of(4096);
                    match reserve(&mut store, process, size, "") {
                        ControlAnswer::Region(descriptor) => {
                            prop_assert!(size > 0 && used + rounded <= CAPACITY);
                            model.push((client, rounded, descriptor.grant));
                        }
                        _ => prop_assert!(size == 0 || used + rounded > CAPACITY),
                    }
                }
                1 => {
                    store.link_lost(NOW, process, Parting::Goodbye);
                    store.link_opened(NOW, process, 1, "again");
                    model.retain(|(owner, ..)| *owner != client);
                }
                _ => {
                    if let Some(at) = model.iter().position(|(owner, ..)| *owner == client) {
                        let (_, _, grant) = model.remove(at);
                        prop_assert_eq!(free(&mut store, process, &grant), ControlAnswer::Freed);
                    }
                }
            }
            prop_assert_eq!(store.used(), model.iter().map(|(_, size, _)| size).sum::<u64>());
            prop_assert_eq!(store.count(), model.len());
        }
    }
}
