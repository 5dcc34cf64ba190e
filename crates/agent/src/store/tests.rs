//! The store against a simple model, and its refusals.

use outboard_wire::Text;
use proptest::prelude::*;

use super::*;

const CAPACITY: u64 = 1 << 20;

fn store() -> RegionStore {
    let config = StoreConfig {
        server: ServerId(7),
        incarnation: Incarnation(9),
        capacity: CAPACITY,
        regions_max: 300,
    };
    RegionStore::new(config, Exports::new())
}

fn reserve(store: &mut RegionStore, client: u64, size: u64, name: &str) -> ControlAnswer {
    store.answer(client, 100, &Question::Reserve { size, chunk_log2: 16, name: Text::new(name) })
}

fn failure(answer: &ControlAnswer) -> Option<Failure> {
    if let ControlAnswer::Failed { failure, .. } = answer { Some(*failure) } else { None }
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
    let descriptor = region(reserve(&mut store, 1, 5000, ""));
    assert_eq!(descriptor.check(), Ok(()));
    assert_eq!(descriptor.grant.size, 8192);
    assert_eq!(
        (descriptor.extents[0].server, descriptor.extents[0].incarnation),
        (ServerId(7), Incarnation(9))
    );
}

#[test]
fn more_than_is_left_is_refused_and_nothing_is_lost() {
    let mut store = store();
    region(reserve(&mut store, 1, CAPACITY - 4096, ""));
    for size in [8192, u64::MAX, i64::MAX as u64] {
        assert_eq!(failure(&reserve(&mut store, 1, size, "")), Some(Failure::NoCapacity));
    }
    assert_eq!(failure(&reserve(&mut store, 1, 0, "")), Some(Failure::BadRequest));
    region(reserve(&mut store, 1, 4096, ""));
    assert_eq!(store.used(), CAPACITY);
}

#[test]
fn a_named_region_outlives_its_client_and_opens_with_the_rights_asked() {
    let mut store = store();
    let first = region(reserve(&mut store, 1, 4096, "graph"));
    assert_eq!(failure(&reserve(&mut store, 2, 4096, "graph")), Some(Failure::NameTaken));
    assert_eq!(store.client_gone(1), 0);
    let open = |store: &mut RegionStore, rights| {
        region(store.answer(2, 100, &Question::OpenNamed { name: Text::new("graph"), rights })).grant
    };
    let reader = open(&mut store, Rights::READ);
    assert_eq!(reader.rights, Rights::READ);
    assert_ne!(reader.key, first.grant.key);
    assert_eq!(open(&mut store, Rights::READ.and(Rights::WRITE)), first.grant);
    let free =
        |grant: &Grant| Question::Free { region: grant.region, generation: grant.generation, key: grant.key };
    assert_eq!(failure(&store.answer(2, 100, &free(&reader))), Some(Failure::NoSuchRegion));
    assert_eq!(store.answer(2, 100, &free(&first.grant)), ControlAnswer::Freed);
    assert_eq!((store.used(), store.count()), (0, 0));
    region(reserve(&mut store, 3, 4096, "graph"));
}

#[test]
fn there_are_only_so_many_regions_and_plain_names() {
    let mut store = store();
    store.config.capacity = 1 << 30;
    for _ in 0..300 {
        region(reserve(&mut store, 1, 4096, ""));
    }
    assert_eq!(failure(&reserve(&mut store, 1, 4096, "")), Some(Failure::NoCapacity));
    store.client_gone(1);
    assert_eq!(failure(&reserve(&mut store, 1, 4096, "a\x1b[31m")), Some(Failure::BadRequest));
    region(reserve(&mut store, 1, 4096, "red"));
}

#[test]
fn a_file_is_loaded_once_and_shared_until_it_is_freed() {
    let mut store = store();
    let plan = |store: &mut RegionStore| store.begin_load("a/web.bin", 5000).unwrap();
    let (first, second) = (plan(&mut store), plan(&mut store));
    assert_eq!(store.used(), 2 * 8192);
    let loaded = region(store.finish_load((1, 100), first, Rights::READ, Ok(())));
    assert_eq!((loaded.grant.size, loaded.grant.rights, loaded.check()), (5000, Rights::READ, Ok(())));
    let same = region(store.finish_load((2, 100), second, Rights::READ.and(Rights::WRITE), Ok(())));
    assert_eq!((same.grant.region, store.used()), (loaded.grant.region, 8192));
    assert_eq!(store.client_gone(1), 0);
    assert_eq!(region(store.loaded("a/web.bin", Rights::READ).unwrap()), loaded);
    let by_name = Question::OpenNamed { name: Text::new("file:a/web.bin"), rights: Rights::READ };
    assert_eq!(region(store.answer(2, 1, &by_name)), loaded);
    assert_eq!(failure(&reserve(&mut store, 2, 4096, "file:mine")), Some(Failure::BadRequest));
    let Grant { region, generation, key, .. } = same.grant;
    assert_eq!(store.answer(2, 1, &Question::Free { region, generation, key }), ControlAnswer::Freed);
    assert_eq!((store.used(), store.loaded("a/web.bin", Rights::READ)), (0, None));
}

#[test]
fn a_file_that_cannot_be_read_gives_its_room_back() {
    let mut store = store();
    let plan = store.begin_load("web.bin", 5000).unwrap();
    let answer =
        store.finish_load((1, 100), plan, Rights::READ, Err(std::io::ErrorKind::UnexpectedEof.into()));
    assert_eq!((failure(&answer), store.used()), (Some(Failure::NoSuchFile), 0));
    assert!(matches!(store.begin_load("web.bin", 1 << 40), Err((Failure::NoCapacity, _))));
}

#[test]
fn a_long_list_comes_in_pages() {
    let mut store = store();
    for _ in 0..LIST_MAX {
        region(reserve(&mut store, 1, 4096, ""));
    }
    let ControlAnswer::Regions { regions, more } = store.answer(1, 1, &Question::List { after: RegionId(0) })
    else {
        panic!("a list is answered with a list");
    };
    assert_eq!((regions.len(), more), (LIST_MAX, false));
    let ControlAnswer::Regions { regions, .. } =
        store.answer(1, 1, &Question::List { after: regions[9].region })
    else {
        panic!("a list is answered with a list");
    };
    assert_eq!(regions.len(), LIST_MAX - 10);
}

proptest! {
    #[test]
    fn capacity_is_always_what_the_living_hold(
        steps in prop::collection::vec((0u64..4, 0u64..40_000, 0u8..3), 1..60)
    ) {
        let mut store = store();
        let mut model: Vec<(u64, u64, Grant)> = Vec::new();
        for (client, size, what) in steps {
            match what {
                0 => {
                    let used: u64 = model.iter().map(|(_, size, _)| size).sum();
                    let rounded = size.next_multiple_of(4096);
                    match reserve(&mut store, client, size, "") {
                        ControlAnswer::Region(descriptor) => {
                            prop_assert!(size > 0 && used + rounded <= CAPACITY);
                            model.push((client, rounded, descriptor.grant));
                        }
                        _ => prop_assert!(size == 0 || used + rounded > CAPACITY),
                    }
                }
                1 => {
                    store.client_gone(client);
                    model.retain(|(owner, ..)| *owner != client);
                }
                _ => {
                    if let Some(at) = model.iter().position(|(owner, ..)| *owner == client) {
                        let (_, _, grant) = model.remove(at);
                        let Grant { region, generation, key, .. } = grant;
                        let freed = store.answer(client, 1, &Question::Free { region, generation, key });
                        prop_assert_eq!(freed, ControlAnswer::Freed);
                    }
                }
            }
            prop_assert_eq!(store.used(), model.iter().map(|(_, size, _)| size).sum::<u64>());
            prop_assert_eq!(store.count(), model.len());
        }
    }
}
