use super::*;
use crate::wrong::Wrong;

/// The first promise that is broken under the first seeds.
fn broken<R: Service + 'static>(
    hide: impl Fn(RankNode) -> R + Clone + 'static,
    look: impl Fn(&R) -> &RankNode + Copy,
) -> Option<String> {
    (0..40).find_map(|seed| {
        let recorder = Recorder::new(8);
        play_with(seed, &recorder, hide.clone(), look);
        recorder.broken().map(|broken| broken.promise)
    })
}

#[test]
fn every_message_arrives_once() {
    assert_eq!(broken(|rank| rank, |rank| rank), None);
}

#[test]
fn a_rank_that_loses_a_message_is_noticed() {
    let hide = |machine| Wrong { machine, mistake: |rank: &mut RankNode| rank.unhandled.truncate(2) };
    let promise = broken(hide, |wrong| &wrong.machine).unwrap();
    assert!(promise.contains("everything arrives"), "{promise}");
}

#[test]
fn what_comes_twice_or_from_nowhere_is_noticed() {
    let mut ledger = Ledger::default();
    ledger.sent((0, 1, 7), Time::ZERO);
    assert_eq!(ledger.arrived((0, 1, 7)), Ok(Time::ZERO));
    assert!(ledger.arrived((0, 1, 7)).unwrap_err().contains("came again"));
    assert!(ledger.arrived((0, 1, 8)).unwrap_err().contains("was not"));
}
