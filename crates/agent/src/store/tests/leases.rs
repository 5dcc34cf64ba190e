//! One writer or many readers, by process; and the epochs of their writing.

use std::collections::BTreeMap;

use outboard_paging::server::Home;
use outboard_wire::paging::{Fence, PagingStatus, WriteBack};

use super::*;

/// Writes bytes back with a grant, in an epoch.
fn write_back(
    store: &RegionStore,
    grant: &Grant,
    epoch: u64,
    offset: u64,
    data: &[u8],
) -> (PagingStatus, u64) {
    let Grant { region, generation, key, .. } = *grant;
    let back = WriteBack { region, generation, key, epoch, offset, length: data.len() as u32 };
    store.gate(region).map_or((PagingStatus::NotOpen, 0), |gate| gate.write_back(&back, data.into()))
}

fn bytes(store: &RegionStore, grant: &Grant, offset: usize, len: usize) -> Vec<u8> {
    store.gate(grant.region).unwrap().memory.window(offset, len).to_vec()
}

#[test]
fn a_second_process_is_refused_by_name_and_let_in_when_the_first_has_gone() {
    let mut store = store();
    region(reserve(&mut store, ONE, 4096, "graph"));
    for rights in [Rights::READ, BOTH] {
        let answer = open(&mut store, OTHER, "graph", rights);
        assert_eq!(failure(&answer), Some(ControlFailure::InUse));
        let detail = detail(&answer);
        assert!(detail.contains("writing by application “1”") && detail.contains("released"), "{detail}");
    }
    assert_eq!(store.link_lost(NOW, ONE, Parting::Goodbye), 0);
    region(open(&mut store, OTHER, "graph", Rights::READ));
    region(open(&mut store, THIRD, "graph", Rights::READ));
    let answer = open(&mut store, THIRD, "graph", BOTH);
    assert_eq!(failure(&answer), Some(ControlFailure::InUse));
    assert!(detail(&answer).contains("reading by application “2”"), "{answer:?}");
}

#[test]
fn those_who_are_in_the_way_are_counted() {
    let mut store = store();
    let grant = region(reserve(&mut store, ONE, 4096, "graph")).grant;
    assert_eq!(release(&mut store, ONE, &grant), ControlAnswer::Released);
    for process in [ONE, OTHER] {
        region(open(&mut store, process, "graph", Rights::READ));
    }
    let detail = detail(&open(&mut store, THIRD, "graph", BOTH));
    assert!(detail.contains("“1” and 1 more"), "{detail}");
}

#[test]
fn a_process_has_what_it_has_until_its_last_link_is_gone() {
    let mut store = store();
    region(reserve(&mut store, ONE, 4096, "graph"));
    region(reserve(&mut store, ONE, 4096, ""));
    store.link_opened(NOW, ONE, 101, "its second link");
    assert_eq!(store.link_lost(NOW, ONE, Parting::Goodbye), 0);
    assert_eq!(failure(&open(&mut store, OTHER, "graph", Rights::READ)), Some(ControlFailure::InUse));
    assert_eq!(store.link_lost(NOW, ONE, Parting::Goodbye), 4096, "what has no name goes with it");
    region(open(&mut store, OTHER, "graph", Rights::READ));
    assert_eq!(store.link_lost(NOW, ONE, Parting::Goodbye), 0, "a link that was never opened is not counted");
}

#[test]
fn the_only_reader_becomes_the_writer_in_an_epoch_of_its_own() {
    let mut store = store();
    let first = region(reserve(&mut store, ONE, 4096, "graph"));
    assert_eq!(release(&mut store, ONE, &first.grant), ControlAnswer::Released);
    let reader = region(open(&mut store, OTHER, "graph", Rights::READ));
    let writer = region(open(&mut store, OTHER, "graph", BOTH));
    let again = region(open(&mut store, OTHER, "graph", BOTH));
    assert!(first.epoch < reader.epoch && reader.epoch < writer.epoch, "{first:?} {reader:?} {writer:?}");
    assert_eq!(writer.epoch, again.epoch, "what it has sent in its own epoch is not refused");
    let old = write_back(&store, &writer.grant, reader.epoch, 0, b"late");
    assert_eq!(old, (PagingStatus::StaleEpoch, writer.epoch));
    assert_eq!(
        write_back(&store, &writer.grant, writer.epoch, 0, b"new"),
        (PagingStatus::Done, writer.epoch)
    );
}

#[test]
fn what_a_writer_sent_before_it_died_is_refused_when_readers_have_come() {
    let mut store = store();
    let writer = region(reserve(&mut store, ONE, 4096, "graph"));
    assert_eq!(write_back(&store, &writer.grant, writer.epoch, 8, b"kept").0, PagingStatus::Done);
    store.link_lost(NOW, ONE, Parting::Goodbye);
    let reader = region(open(&mut store, OTHER, "graph", Rights::READ));
    assert_eq!(write_back(&store, &writer.grant, writer.epoch, 8, b"late").0, PagingStatus::StaleEpoch);
    assert_eq!(bytes(&store, &reader.grant, 8, 4), b"kept");
}

#[test]
fn a_fence_refuses_what_was_sent_before_it() {
    let mut store = store();
    let writer = region(reserve(&mut store, ONE, 4096, ""));
    let reader = region(open_reader(&mut store, &writer));
    let fence = |grant: &Grant| Fence { region: grant.region, generation: grant.generation, key: grant.key };
    let gate = Arc::clone(store.gate(writer.grant.region).unwrap());
    assert_eq!(gate.fence(&fence(&reader.grant)), (PagingStatus::NoRight, 0));
    let stranger = Grant { key: RegionKey([0; 16]), ..writer.grant };
    assert_eq!(gate.fence(&fence(&stranger)), (PagingStatus::NotOpen, 0));
    let (status, epoch) = gate.fence(&fence(&writer.grant));
    assert_eq!((status, epoch), (PagingStatus::Done, writer.epoch + 1));
    assert_eq!(write_back(&store, &writer.grant, writer.epoch, 0, b"old").0, PagingStatus::StaleEpoch);
    assert_eq!(write_back(&store, &writer.grant, epoch + 1, 0, b"odd").0, PagingStatus::StaleEpoch);
    assert_eq!(write_back(&store, &writer.grant, epoch, 0, b"new"), (PagingStatus::Done, epoch));
    assert_eq!(bytes(&store, &writer.grant, 0, 3), b"new");
}

/// Describes the writer's region with the key to read it.
fn open_reader(store: &mut RegionStore, writer: &RegionDescriptor) -> ControlAnswer {
    let stored = &store.regions[&writer.grant.region];
    ControlAnswer::Region(stored.describe(
        &store.config,
        writer.grant.region,
        (Rights::READ, RegionSharing::Leased),
    ))
}

#[test]
fn a_write_back_is_checked_like_any_access() {
    let mut store = store();
    let writer = region(reserve(&mut store, ONE, 4096, ""));
    let (grant, epoch) = (writer.grant, writer.epoch);
    for (offset, len, expected) in [
        (4095, 1, PagingStatus::Done),
        (4095, 2, PagingStatus::OutOfBounds),
        (4096, 1, PagingStatus::OutOfBounds),
        (u64::MAX, 2, PagingStatus::OutOfBounds),
    ] {
        assert_eq!(write_back(&store, &grant, epoch, offset, &vec![7; len]).0, expected, "{len} at {offset}");
    }
    let reader = region(open_reader(&mut store, &writer)).grant;
    assert_eq!(write_back(&store, &reader, epoch, 0, b"x"), (PagingStatus::NoRight, 0));
    let other_life = Grant { generation: Generation(2), ..grant };
    assert_eq!(write_back(&store, &other_life, epoch, 0, b"x"), (PagingStatus::NotOpen, 0));
    assert_eq!(free(&mut store, ONE, &grant), ControlAnswer::Freed);
    assert_eq!(write_back(&store, &grant, epoch, 0, b"x"), (PagingStatus::NotOpen, 0));
}

#[test]
fn the_bytes_behind_the_end_of_a_file_are_nobodys() {
    let mut store = store();
    let plan = store.begin_load("web.bin", 5000).unwrap();
    let loaded = region(store.finish_load(ONE, plan, (BOTH, RegionSharing::Leased), Ok(())));
    assert_eq!(write_back(&store, &loaded.grant, loaded.epoch, 4999, b"x").0, PagingStatus::Done);
    assert_eq!(write_back(&store, &loaded.grant, loaded.epoch, 4999, b"xx").0, PagingStatus::OutOfBounds);
}

#[test]
fn those_who_share_with_everybody_all_write_and_keep_leases_out() {
    let mut store = store();
    let together = (BOTH, RegionSharing::Together);
    let (name, sharing) = (Text::new("counters"), RegionSharing::Together);
    region(store.answer(NOW, ONE, &Question::Reserve { size: 4096, chunk_log2: 16, name, sharing }));
    let grant = region(open_as(&mut store, OTHER, "counters", together)).grant;
    assert_eq!(failure(&open(&mut store, THIRD, "counters", Rights::READ)), Some(ControlFailure::InUse));
    region(open_as(&mut store, THIRD, "counters", (Rights::READ, RegionSharing::Together)));
    assert_eq!(free(&mut store, THIRD, &grant), ControlAnswer::Freed, "as it always was among them");
    let leased = region(reserve(&mut store, ONE, 4096, "graph"));
    assert_eq!(failure(&open_as(&mut store, OTHER, "graph", together)), Some(ControlFailure::InUse));
    assert_eq!(failure(&free(&mut store, OTHER, &leased.grant)), Some(ControlFailure::InUse));
    assert_eq!(free(&mut store, ONE, &leased.grant), ControlAnswer::Freed);
}

#[test]
fn a_region_without_a_name_is_freed_by_its_release() {
    let mut store = store();
    let grant = region(reserve(&mut store, ONE, 4096, "")).grant;
    assert_eq!(failure(&release(&mut store, OTHER, &grant)), Some(ControlFailure::NoSuchRegion));
    let other_life = Grant { generation: Generation(2), ..grant };
    assert_eq!(failure(&release(&mut store, ONE, &other_life)), Some(ControlFailure::NoSuchRegion));
    assert_eq!(release(&mut store, ONE, &grant), ControlAnswer::Released);
    assert_eq!((store.used(), store.count()), (0, 0));
    assert_eq!(failure(&release(&mut store, ONE, &grant)), Some(ControlFailure::NoSuchRegion));
}

#[test]
fn only_a_file_is_synced_by_one_at_a_time_and_only_who_may_write_syncs_or_populates() {
    let mut store = store();
    let plain = region(reserve(&mut store, ONE, 4096, "graph")).grant;
    let begin = |store: &mut RegionStore, grant: &Grant| {
        store.begin_sync(grant.region, grant.generation, &grant.key).map_err(|(failure, _)| failure)
    };
    assert_eq!(begin(&mut store, &plain).err(), Some(ControlFailure::NoFile));
    let plan = store.begin_load("web.bin", 5000).unwrap();
    let loaded = region(store.finish_load(ONE, plan, (BOTH, RegionSharing::Leased), Ok(())));
    let reader = region(open_reader(&mut store, &loaded)).grant;
    assert_eq!(begin(&mut store, &reader).err(), Some(ControlFailure::NoRight));
    let stranger = Grant { key: RegionKey([0; 16]), ..loaded.grant };
    assert_eq!(begin(&mut store, &stranger).err(), Some(ControlFailure::NoSuchRegion));
    let mut populated = |grant: &Grant| {
        let found = store.whole_memory(grant.region, grant.generation, &grant.key);
        found.map(|memory| memory.len()).map_err(|(failure, _)| failure)
    };
    assert_eq!(populated(&reader), Err(ControlFailure::NoRight));
    assert_eq!(populated(&stranger), Err(ControlFailure::NoSuchRegion));
    assert_eq!(populated(&plain), Ok(4096));
    let sync = begin(&mut store, &loaded.grant).unwrap();
    assert_eq!((sync.path(), sync.size(), sync.memory().len()), ("web.bin", 5000, 8192));
    assert_eq!(begin(&mut store, &loaded.grant).err(), Some(ControlFailure::InUse));
    store.finish_sync(&sync);
    begin(&mut store, &loaded.grant).unwrap();
}

/// A thread goes on writing back in an epoch that has passed, as a silent agent might that wakes up.
#[test]
fn nothing_of_an_earlier_epoch_is_written_once_a_fence_is_answered() {
    const LEN: usize = 64 << 10;
    let mut store = store();
    let Grant { region: id, generation, key, .. } = region(reserve(&mut store, ONE, LEN as u64, "")).grant;
    let gate = Arc::clone(store.gate(id).unwrap());
    let back = |epoch| WriteBack { region: id, generation, key, epoch, offset: 0, length: LEN as u32 };
    for round in 0..200u32 {
        let old = gate.epoch().now();
        let (late, new) = (vec![1; LEN], vec![2; LEN]);
        let has_begun = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let agent = scope.spawn(|| {
                has_begun.wait();
                while gate.write_back(&back(old), late[..].into()).0 == PagingStatus::Done {}
            });
            has_begun.wait();
            let (status, epoch) = gate.fence(&Fence { region: id, generation, key });
            assert_eq!((status, epoch), (PagingStatus::Done, old + 1));
            assert_eq!(gate.write_back(&back(epoch), new[..].into()), (PagingStatus::Done, epoch));
            agent.join().unwrap();
        });
        assert!(gate.memory.window(0, LEN).to_vec() == new, "round {round}: late bytes over newer ones");
    }
}

/// What the model knows of one process: as what it was given the region, and how often.
#[derive(Default)]
struct Held {
    writes: bool,
    is_leased: bool,
    times: u32,
}

proptest! {
    #[test]
    fn no_two_ever_have_it_who_would_disturb_each_other(
        steps in prop::collection::vec((1u64..4, any::<bool>(), any::<bool>(), 0u8..4), 1..80)
    ) {
        let mut store = store();
        let grant = region(reserve(&mut store, ONE, 4096, "graph")).grant;
        release(&mut store, ONE, &grant);
        let mut model: BTreeMap<u64, Held> = BTreeMap::new();
        let mut epoch = 0;
        for (client, writes, is_leased, what) in steps {
            let process = Incarnation(client);
            match what {
                0 => {
                    model.remove(&client);
                    store.link_lost(NOW, process, Parting::Goodbye);
                    store.link_opened(NOW, process, 1, "again");
                }
                1 => {
                    let expected = model.get_mut(&client).map(|held| held.times -= 1).is_some();
                    model.retain(|_, held| held.times > 0);
                    let answer = release(&mut store, process, &grant);
                    prop_assert_eq!(answer == ControlAnswer::Released, expected);
                }
                _ => {
                    let rights = if writes { BOTH } else { Rights::READ };
                    let sharing = if is_leased { RegionSharing::Leased } else { RegionSharing::Together };
                    let own = model.remove(&client).unwrap_or_default();
                    let merged = Held {
                        writes: own.writes || writes,
                        is_leased: own.is_leased || is_leased,
                        times: own.times + 1,
                    };
                    let is_disturbed = |held: &Held| {
                        (held.is_leased || merged.is_leased) && (held.writes || merged.writes)
                    };
                    let expected = !model.values().any(is_disturbed);
                    let answer = open_as(&mut store, process, "graph", (rights, sharing));
                    prop_assert_eq!(matches!(answer, ControlAnswer::Region(_)), expected, "{:?}", answer);
                    let is_new_writer = merged.writes && !own.writes;
                    if expected {
                        let descriptor = region(answer);
                        let is_later = descriptor.epoch > epoch;
                        prop_assert!(is_later || (!is_new_writer && descriptor.epoch == epoch));
                        epoch = descriptor.epoch;
                        model.insert(client, merged);
                    } else if own.times > 0 {
                        model.insert(client, own);
                    }
                }
            }
        }
    }
}
