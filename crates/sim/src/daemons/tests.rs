use outboard_agent::Parting;
use outboard_driver::LinkId;
use outboard_wire::control::{ControlAnswer, Question, RegionSharing};
use outboard_wire::{Incarnation, RegionId, Text, Time};

use super::*;
use crate::wrong::Wrong;

/// The first promise that a daemon with this mistake breaks under the first seeds.
fn broken(mistake: fn(&mut Desk)) -> Option<String> {
    (0..30).find_map(|seed| {
        let recorder = Recorder::new(8);
        let wrong = move |boot, books, ranks| Wrong { machine: Desk::new(boot, books, ranks), mistake };
        play_with(seed, &recorder, wrong, |desk| &desk.machine);
        recorder.broken().map(|broken| broken.promise)
    })
}

#[test]
fn a_right_daemon_keeps_its_promises() {
    assert_eq!(broken(|_| ()), None);
}

#[test]
fn a_region_without_a_holder_is_noticed() {
    let promise = broken(|desk| {
        let impostor = Incarnation(0);
        desk.store.link_opened(Time::ZERO, impostor, 0, "impostor");
        let (name, sharing) = (Text::new(""), RegionSharing::Leased);
        desk.store.answer(
            Time::ZERO,
            impostor,
            &Question::Reserve { size: 1, chunk_log2: 16, name, sharing },
        );
    });
    assert!(promise.as_ref().is_some_and(|promise| promise.contains("what is used")), "{promise:?}");
}

#[test]
fn a_client_that_is_taken_for_dead_is_noticed() {
    let promise = broken(|desk| {
        desk.store.link_lost(Time::ZERO, Incarnation(3), Parting::Goodbye);
    });
    let is_noticed =
        |promise: &String| ["what is used", "not answered"].iter().any(|part| promise.contains(part));
    assert!(promise.as_ref().is_some_and(is_noticed), "{promise:?}");
}

#[test]
fn a_lease_that_is_given_up_for_its_holder_is_noticed() {
    let promise = broken(|desk| {
        let list = Question::List { after: RegionId(0) };
        let ControlAnswer::Regions { regions, .. } = desk.store.answer(Time::ZERO, Incarnation(0), &list)
        else {
            return;
        };
        for listed in regions.iter().filter(|listed| !listed.name.as_str().is_empty()) {
            for process in (1..20).map(Incarnation) {
                let (region, generation) = (listed.region, listed.generation);
                desk.store.answer(Time::ZERO, process, &Question::Release { region, generation });
            }
        }
    });
    assert!(promise.as_ref().is_some_and(|promise| promise.contains("not answered")), "{promise:?}");
}

#[test]
fn a_second_answer_is_noticed() {
    let promise = broken(|desk| {
        if let Some(addressed) = desk.last.take() {
            desk.outbox.answer(LinkId(addressed.client), addressed.tag, &addressed.answer);
        }
    });
    assert!(promise.as_ref().is_some_and(|promise| promise.contains("answered once")), "{promise:?}");
}

#[test]
fn an_answer_that_is_never_given_is_noticed() {
    let promise = broken(|desk| {
        if let Some(addressed) = desk.last.take() {
            desk.outbox.forget(LinkId(addressed.client));
        }
    });
    assert!(promise.as_ref().is_some_and(|promise| promise.contains("has all answers")), "{promise:?}");
}
