use outboard_driver::LinkId;
use outboard_wire::Text;
use outboard_wire::control::Question;

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
fn a_region_that_nobody_holds_is_noticed() {
    let promise = broken(|desk| {
        desk.store.answer(1, 1, &Question::Reserve { size: 1, chunk_log2: 16, name: Text::new("") });
    });
    assert!(promise.as_ref().is_some_and(|promise| promise.contains("what is used")), "{promise:?}");
}

#[test]
fn a_client_that_is_taken_for_dead_is_noticed() {
    let promise = broken(|desk| {
        desk.store.client_gone(3);
    });
    assert!(promise.as_ref().is_some_and(|promise| promise.contains("what is used")), "{promise:?}");
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
