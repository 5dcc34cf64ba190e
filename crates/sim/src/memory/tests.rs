use std::sync::Arc;

use outboard_driver::LinkId;
use outboard_link::memory::Segment;
use outboard_wire::Incarnation;

use super::layout::{SIZE, strip};
use super::*;
use crate::wrong::Wrong;

/// The first promise that an owner with this mistake breaks under the first seeds.
fn broken(mistake: fn(&mut Owner)) -> Option<String> {
    (0..20).find_map(|seed| {
        let recorder = Recorder::new(8);
        let wrong =
            move |boot, model, is_orderly| Wrong { machine: Owner::new(boot, model, is_orderly), mistake };
        play_with(seed, &recorder, wrong, |accessor| accessor, |accessor| accessor);
        recorder.broken().map(|broken| broken.promise)
    })
}

#[test]
fn a_right_owner_keeps_its_promises() {
    assert_eq!(broken(|_| ()), None);
}

#[test]
fn half_a_word_is_noticed() {
    let promise = broken(|owner| owner.memory.window_mut(strip(0) * 8, 4).write(0, &[0xaa; 4])).unwrap();
    assert!(promise.contains("no accessor wrote"), "{promise}");
}

#[test]
fn an_addition_that_no_accessor_asked_for_is_noticed() {
    let promise = broken(|owner| {
        owner.memory.word(0).fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(promise.as_ref().is_some_and(|promise| promise.contains("counter 0")), "{promise:?}");
}

#[test]
fn an_update_that_vanishes_is_noticed() {
    let promise = broken(|owner| owner.memory.window_mut(0, SIZE).write(0, &[0; SIZE])).unwrap();
    assert!(promise.contains("counter") || promise.contains("overwritten"), "{promise}");
}

fn model() -> (Model, Incarnation, Recorder) {
    let recorder = Recorder::new(8);
    let (model, owner) = (Model::new(recorder.clone()), Incarnation(1));
    model.own(owner, Arc::new(Segment::create(c"test", SIZE).unwrap()));
    (model, owner, recorder)
}

/// The verdict of the model on a word that is read after two writes, each by its link and whether it is known.
fn says(writes: [(u64, bool); 2], cuts: bool, value: u64) -> Option<String> {
    let (model, owner, recorder) = model();
    let word = strip(0);
    for ((link, is_known), value) in writes.into_iter().zip(1..) {
        let index = model.begin_write(owner, LinkId(link), word, &[value]);
        if is_known {
            model.written(owner, index);
        }
        if cuts {
            model.cut(owner, LinkId(link));
        }
    }
    let ticket = model.begin(owner);
    model.read(owner, &ticket, word * 8, &u64::to_le_bytes(value));
    recorder.broken().map(|broken| broken.promise)
}

#[test]
fn a_write_that_may_have_happened_may_be_seen_and_may_not() {
    for value in [0, 1, 2] {
        assert_eq!(says([(2, false), (2, false)], false, value), None);
    }
    assert!(says([(2, false), (2, false)], false, 3).is_some());
}

#[test]
fn what_is_known_to_be_done_hides_what_came_before_on_its_link() {
    assert_eq!(says([(2, false), (2, true)], false, 2), None);
    for value in [0, 1] {
        assert!(says([(2, false), (2, true)], false, value).is_some());
    }
}

#[test]
fn a_late_write_of_a_lost_link_may_come_after_a_newer_one_until_the_owner_has_noticed() {
    assert_eq!(says([(2, false), (4, true)], false, 1), None);
    assert!(says([(2, false), (4, true)], true, 1).is_some());
    assert!(says([(2, true), (4, true)], false, 1).is_some());
}

#[test]
fn counters_registers_and_withdrawn_regions_are_watched() {
    let check = |act: fn(&Model, Incarnation)| {
        let (model, owner, recorder) = model();
        act(&model, owner);
        recorder.broken().map(|broken| broken.promise).unwrap_or_default()
    };
    let twice = check(|model, owner| {
        let tickets = [model.begin_add(owner, 0), model.begin_add(owner, 0)];
        tickets.iter().for_each(|ticket| model.added(owner, ticket, 0, 1));
    });
    assert!(twice.contains("two additions"), "{twice}");
    let replaced = check(|model, owner| {
        model.begin_swap(owner, 0, 5);
        (0..2).for_each(|_| model.swapped(owner, 0, 0, 0));
    });
    assert!(replaced.contains("replaced twice"), "{replaced}");
    let visited = check(|model, owner| {
        model.withdraw(owner);
        model.visited_shed(owner, &model.begin(owner), true);
    });
    assert!(visited.contains("withdrawn"), "{visited}");
    let lost = check(|model, owner| {
        let ticket = model.begin_add(owner, 0);
        model.added(owner, &ticket, 0, 0);
        model.close();
    });
    assert!(lost.contains("counter 0 is 0, not from 1 to 1"), "{lost}");
}
