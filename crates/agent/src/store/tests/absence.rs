//! Processes whose links were lost: what stays theirs, for how long, and what becomes of it.

use std::collections::BTreeMap;

use outboard_paging::server::Home;
use outboard_wire::paging::{Fence, PagingStatus, WriteBack};

use super::*;

const SOON: Time = Time::from_nanos(10_000_000_000);
const LATER: Time = Time::from_nanos(30_000_000_000);
const MUCH_LATER: Time = Time::from_nanos(3_600_000_000_000);

fn ask_at(store: &mut RegionStore, now: Time, process: Incarnation, rights: Rights) -> ControlAnswer {
    let (name, sharing) = (Text::new("graph"), RegionSharing::Leased);
    store.answer(now, process, &Question::OpenNamed { name, rights, sharing })
}

/// What a peer gets that presents a grant.
fn presents(store: &RegionStore, descriptor: &RegionDescriptor) -> PagingStatus {
    let Grant { region, generation, key, .. } = descriptor.grant;
    let back = WriteBack { region, generation, key, epoch: descriptor.epoch, offset: 0, length: 1 };
    let data: &[u8] = b"!";
    store.gate(region).map_or(PagingStatus::NotOpen, |gate| gate.write_back(&back, data.into()).0)
}

/// Whether a grant opens its region to read it.
fn may_read(store: &RegionStore, descriptor: &RegionDescriptor) -> bool {
    let gate = store.gate(descriptor.grant.region).unwrap();
    let rights = gate.keys.rights_of(&descriptor.grant.key);
    gate.generation == descriptor.grant.generation
        && rights.is_some_and(|rights| rights.includes(Rights::READ))
}

#[test]
fn a_lost_client_has_everything_when_it_comes_back_in_time() {
    let mut store = store();
    let own = region(reserve(&mut store, ONE, 8192, ""));
    let named = region(reserve(&mut store, ONE, 4096, "graph"));
    assert_eq!(store.link_lost(NOW, ONE, Parting::Loss), 0);
    assert_eq!((store.awaited(), store.next_deadline()), (1, Some(LATER)));
    assert_eq!(presents(&store, &named), PagingStatus::Done, "its agent may still bring what it wrote");
    let answer = ask_at(&mut store, SOON, OTHER, Rights::READ);
    assert_eq!(failure(&answer), Some(ControlFailure::InUse));
    let refusal = detail(&answer);
    for part in ["writing by application “1”", "links are lost", "in 21 s"] {
        assert!(refusal.contains(part), "{refusal}");
    }
    assert_eq!(failure(&free(&mut store, OTHER, &named.grant)), Some(ControlFailure::InUse));
    store.link_opened(SOON, ONE, 101, "application “1” by another way");
    assert_eq!((store.awaited(), store.next_deadline()), (0, None));
    store.on_time(MUCH_LATER);
    assert_eq!((presents(&store, &own), presents(&store, &named)), (PagingStatus::Done, PagingStatus::Done));
    let refusal = detail(&ask_at(&mut store, MUCH_LATER, OTHER, Rights::READ));
    assert!(refusal.contains("by another way; wait until it is released"), "{refusal}");
    assert_eq!(store.link_lost(MUCH_LATER, ONE, Parting::Goodbye), 8192);
    region(ask_at(&mut store, MUCH_LATER, OTHER, BOTH));
}

#[test]
fn goodbye_and_certain_death_end_everything_at_once() {
    for parting in [Parting::Goodbye, Parting::Death] {
        let mut store = store();
        region(reserve(&mut store, ONE, 8192, ""));
        let before = region(reserve(&mut store, ONE, 4096, "graph"));
        assert_eq!(store.link_lost(NOW, ONE, parting), 8192);
        assert_eq!((store.awaited(), store.next_deadline()), (0, None));
        let after = region(ask_at(&mut store, NOW, OTHER, BOTH));
        assert_eq!(after.grant, before.grant, "there is no process to be shut out");
    }
}

#[test]
fn the_last_link_decides_unless_the_process_is_known_to_be_dead() {
    use Parting::{Death, Goodbye, Loss};
    for (first, last, bytes) in
        [(Goodbye, Loss, 0), (Loss, Goodbye, 8192), (Loss, Loss, 0), (Death, Loss, 8192), (Loss, Death, 8192)]
    {
        let mut store = store();
        region(reserve(&mut store, ONE, 8192, ""));
        store.link_opened(NOW, ONE, 101, "its second link");
        assert_eq!(store.link_lost(NOW, ONE, first), 0);
        assert_eq!(store.link_lost(NOW, ONE, last), bytes, "{first:?}, then {last:?}");
    }
    let mut store = store();
    region(reserve(&mut store, ONE, 8192, ""));
    store.link_opened(NOW, ONE, 101, "its second link");
    store.link_lost(NOW, ONE, Death);
    store.link_opened(NOW, ONE, 101, "a process that opens links lives");
    store.link_lost(NOW, ONE, Loss);
    assert_eq!(store.link_lost(NOW, ONE, Loss), 0);
}

#[test]
fn what_has_no_name_goes_when_the_time_is_up_and_counts_until_then() {
    let mut store = store();
    region(reserve(&mut store, ONE, CAPACITY - 4096, ""));
    store.link_lost(NOW, ONE, Parting::Loss);
    let refusal = detail(&reserve(&mut store, OTHER, 8192, ""));
    assert!(
        refusal.contains(&format!("({} by processes that may come back)", show_bytes(CAPACITY - 4096))),
        "{refusal}"
    );
    store.on_time(SOON);
    assert_eq!(store.used(), CAPACITY - 4096);
    store.on_time(LATER);
    assert_eq!((store.used(), store.count(), store.awaited()), (0, 0, 0));
    store.link_opened(LATER, ONE, 101, "too late");
    assert_eq!((store.used(), store.next_deadline()), (0, None));
}

#[test]
fn a_late_one_keeps_what_no_other_asked_for() {
    let mut store = store();
    let named = region(reserve(&mut store, ONE, 4096, "graph"));
    store.link_lost(NOW, ONE, Parting::Loss);
    store.on_time(LATER);
    assert_eq!((store.awaited(), store.next_deadline()), (0, None));
    store.link_opened(MUCH_LATER, ONE, 101, "late");
    assert_eq!(presents(&store, &named), PagingStatus::Done);
    assert_eq!(failure(&ask_at(&mut store, MUCH_LATER, OTHER, Rights::READ)), Some(ControlFailure::InUse));
    assert_eq!(release(&mut store, ONE, &named.grant), ControlAnswer::Released);
}

#[test]
fn a_late_one_is_refused_where_others_have_come() {
    let mut store = store();
    let before = region(reserve(&mut store, ONE, 4096, "graph"));
    store.link_lost(NOW, ONE, Parting::Loss);
    let after = region(ask_at(&mut store, LATER, OTHER, BOTH));
    assert!(after.grant.key != before.grant.key && after.epoch > before.epoch);
    assert_eq!(presents(&store, &before), PagingStatus::NotOpen);
    store.link_opened(LATER, ONE, 101, "late");
    assert_eq!(presents(&store, &before), PagingStatus::NotOpen);
    let Grant { region: id, generation, key, .. } = before.grant;
    let fence = Fence { region: id, generation, key };
    assert_eq!(store.gate(id).unwrap().fence(&fence), (PagingStatus::NotOpen, 0));
    for answer in [release(&mut store, ONE, &before.grant), free(&mut store, ONE, &before.grant)] {
        assert_eq!(failure(&answer), Some(ControlFailure::NoSuchRegion), "{answer:?}");
    }
    assert_eq!(presents(&store, &after), PagingStatus::Done);
    assert_eq!(release(&mut store, OTHER, &after.grant), ControlAnswer::Released);
}

#[test]
fn a_late_reader_disturbs_no_reader_and_is_shut_out_by_a_writer() {
    let mut store = store();
    let first = region(reserve(&mut store, ONE, 4096, "graph"));
    release(&mut store, ONE, &first.grant);
    let reader = region(ask_at(&mut store, NOW, ONE, Rights::READ));
    store.link_lost(NOW, ONE, Parting::Loss);
    let beside = region(ask_at(&mut store, LATER, OTHER, Rights::READ));
    assert_eq!(beside.grant, reader.grant, "nothing has changed for readers");
    let (rights, together) = (Rights::READ, RegionSharing::Together);
    let onlooker = region(open_as(&mut store, THIRD, "graph", (rights, together)));
    assert_eq!(release(&mut store, OTHER, &beside.grant), ControlAnswer::Released);
    assert_eq!((may_read(&store, &reader), may_read(&store, &onlooker)), (true, true));
    region(open_as(&mut store, OTHER, "graph", (BOTH, together)));
    assert_eq!((may_read(&store, &reader), may_read(&store, &onlooker)), (false, true));
}

#[test]
fn with_no_time_to_linger_no_client_is_waited_for() {
    let mut store = store();
    store.clients = Clients::new(Duration::ZERO);
    store.link_opened(NOW, ONE, 101, "one");
    store.link_opened(NOW, OTHER, 102, "other");
    region(reserve(&mut store, ONE, 8192, ""));
    let before = region(reserve(&mut store, ONE, 4096, "graph"));
    assert_eq!(store.link_lost(NOW, ONE, Parting::Loss), 8192);
    region(ask_at(&mut store, NOW, OTHER, BOTH));
    assert_eq!(presents(&store, &before), PagingStatus::NotOpen);
}

#[test]
fn only_so_many_are_waited_for() {
    let mut store = store();
    let first = region(reserve(&mut store, ONE, 4096, "graph"));
    store.link_lost(NOW, ONE, Parting::Loss);
    let (name, sharing) = (Text::new("counts"), RegionSharing::Together);
    store.answer(NOW, OTHER, &Question::Reserve { size: 4096, chunk_log2: 16, name, sharing });
    for process in (1000..2100).map(Incarnation) {
        store.link_opened(NOW, process, 1, "one of many");
        region(open_as(&mut store, process, "counts", (BOTH, sharing)));
        store.link_lost(NOW, process, Parting::Loss);
    }
    assert_eq!(store.awaited(), 1024);
    store.link_opened(NOW, ONE, 101, "the first of them");
    assert_eq!(presents(&store, &first), PagingStatus::NotOpen, "what it no longer has it cannot use");
    region(open(&mut store, THIRD, "graph", BOTH));
}

/// What the model knows of a process.
#[derive(Clone, Default)]
struct Known {
    is_here: bool,
    lost_at: Option<u64>,
    unnamed: u64,
    /// As what it has the region “graph”, and what it was told.
    claim: Option<(bool, RegionDescriptor)>,
}

impl Known {
    fn is_overdue(&self, now: u64) -> bool {
        self.lost_at.is_some_and(|lost| lost + LINGER.as_secs() <= now)
    }
}

/// Asks for “graph”: those who are here or awaited are in the way, those who are overdue lose it.
fn claim(
    store: &mut RegionStore,
    model: &mut BTreeMap<u64, Known>,
    (client, asks_to_write): (u64, bool),
    seconds: u64,
) -> Result<(), TestCaseError> {
    let now = Time::ZERO + Duration::from_secs(seconds);
    let mut own = model.remove(&client).unwrap_or_default();
    let writes = asks_to_write || own.claim.as_ref().is_some_and(|(wrote, _)| *wrote);
    let is_in_the_way = |known: &&mut Known| known.claim.as_ref().is_some_and(|(other, _)| *other || writes);
    let refused = model.values_mut().filter(is_in_the_way).any(|other| !other.is_overdue(seconds));
    let rights = if asks_to_write { BOTH } else { Rights::READ };
    let answer = ask_at(store, now, Incarnation(client), rights);
    prop_assert_eq!(failure(&answer), refused.then_some(ControlFailure::InUse), "{:?}", answer);
    if !refused {
        for late in model.values_mut().filter(is_in_the_way) {
            let is_shut_out = late.claim.take().is_some_and(|(_, told)| !may_read(store, &told));
            prop_assert!(is_shut_out, "one that has lost the region may use it");
        }
        own.claim = Some((writes, region(answer)));
    }
    model.insert(client, own);
    Ok(())
}

proptest! {
    /// Leases only, one region with a name and some without, and time that passes.
    #[test]
    fn none_loses_in_time_and_none_uses_what_another_was_given(
        steps in prop::collection::vec((1u64..4, 0u8..7, 1u64..25), 1..80)
    ) {
        let mut store = store();
        let first = region(reserve(&mut store, ONE, 4096, "graph")).grant;
        release(&mut store, ONE, &first);
        let mut model: BTreeMap<u64, Known> = (1..4).map(|client| (client, Known::default())).collect();
        model.values_mut().for_each(|known| known.is_here = true);
        let mut seconds = 0;
        for (client, what, span) in steps {
            let (process, now) = (Incarnation(client), Time::ZERO + Duration::from_secs(seconds));
            let is_here = model[&client].is_here;
            match what {
                0 => {
                    seconds += span;
                    store.on_time(Time::ZERO + Duration::from_secs(seconds));
                    for known in model.values_mut().filter(|known| known.is_overdue(seconds)) {
                        known.unnamed = 0;
                    }
                }
                1 if is_here => {
                    store.link_lost(now, process, Parting::Loss);
                    let known = model.get_mut(&client).unwrap();
                    (known.is_here, known.lost_at) = (false, Some(seconds));
                }
                2 if is_here => {
                    store.link_lost(now, process, if span % 2 == 0 { Parting::Goodbye } else { Parting::Death });
                    model.insert(client, Known::default());
                }
                1 | 2 => {
                    store.link_opened(now, process, 1, "again");
                    let known = model.get_mut(&client).unwrap();
                    (known.is_here, known.lost_at) = (true, None);
                }
                3 if is_here => {
                    let size = span * 4096;
                    let used: u64 = 4096 + model.values().map(|known| known.unnamed).sum::<u64>();
                    let has_it = matches!(reserve(&mut store, process, size, ""), ControlAnswer::Region(_));
                    prop_assert_eq!(has_it, used + size <= CAPACITY);
                    model.get_mut(&client).unwrap().unnamed += if has_it { size } else { 0 };
                }
                _ if is_here => claim(&mut store, &mut model, (client, what == 6), seconds)?,
                _ => {}
            }
            prop_assert_eq!(store.used(), 4096 + model.values().map(|known| known.unnamed).sum::<u64>());
            for (_, told) in model.values().filter_map(|known| known.claim.as_ref()) {
                prop_assert!(may_read(&store, told), "one that has the region is shut out");
            }
        }
    }
}
