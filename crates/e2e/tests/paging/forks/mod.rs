//! Forked children see far memory as it was at the fork, whatever becomes of their parent.

mod acts;
mod part;

use std::time::Duration;

use outboard::FaultAnswer;
use outboard_e2e::{Daemon, Place, Process};
use rustix::process::Signal;

pub(crate) use part::Forker;
use part::{DONE, Scene};

/// Plays a scene at a memory server near and far, to its end.
#[track_caller]
fn plays(scene: Scene, line: &str) {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    for at in [daemon.local(), daemon.remote()] {
        let (status, said) = Forker::new(scene, at).start(&place).exit();
        assert_eq!(status.code(), Some(DONE), "{at}: {said:?}");
        assert!(said.contains(&line.to_owned()), "{at}: {said:?}");
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn children_see_every_byte_as_it_was_while_the_parent_goes_on_writing() {
    plays(Scene::Churn, "every child saw what was there");
}

#[test]
fn a_word_that_is_being_counted_up_stands_still_in_a_child() {
    plays(Scene::Count, "every child saw words that stood still");
}

#[test]
fn a_child_that_reads_everything_has_little_of_it_at_a_time() {
    plays(Scene::ReadAll, "the child had little of it at a time");
}

#[test]
fn programs_are_started_as_ever() {
    plays(Scene::Exec, "programs were started");
}

#[test]
fn a_child_gets_errors_for_what_takes_its_parents_threads() {
    plays(Scene::Refused, "the child got errors");
}

#[test]
fn a_child_moves_and_unmaps_what_it_sees() {
    plays(Scene::Remap, "the child moved and unmapped");
}

#[test]
fn what_the_parent_frees_stays_for_its_children() {
    plays(Scene::Free, "the child saw what was freed");
}

#[test]
fn faults_that_are_answered_by_signals_in_the_parent_are_answered_in_the_child() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    for scene in [Scene::Churn, Scene::Count, Scene::Remap] {
        let forker = Forker { faults: FaultAnswer::Signal, ..Forker::new(scene, daemon.local()) };
        let (status, said) = forker.start(&place).exit();
        assert_eq!(status.code(), Some(DONE), "{said:?}");
    }
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn pages_that_cannot_be_moved_are_copied_in_the_parent() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let forker = Forker { copies: true, ..Forker::new(Scene::Churn, daemon.local()) };
    let (status, said) = forker.start(&place).exit();
    assert_eq!(status.code(), Some(DONE), "{said:?}");
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn an_agent_that_dies_changes_nothing_for_children() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let agent = Daemon::agent(&place, &place.socket(), &daemon.local().to_string(), &[]);
    let forker = Forker { agent: Some(agent.local().clone()), ..Forker::new(Scene::Churn, daemon.remote()) };
    let mut forking = forker.start(&place);
    forking.await_line("forking");
    agent.process.kill();
    let (status, said) = forking.exit();
    assert_eq!(status.code(), Some(DONE), "{said:?}");
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn without_room_for_copies_the_parent_goes_on_and_the_child_gets_a_signal() {
    let place = Place::new();
    let (at, capacity) = (place.socket(), (acts::BYTES + acts::BYTES / 4).to_string());
    let arguments = ["--listen", &at, "--listen", "tcp:127.0.0.1:0", "--capacity", &capacity];
    let daemon = Daemon::start(&place, "memory", "proof-memory", &arguments);
    let (status, said) = Forker::new(Scene::Fill, daemon.remote()).start(&place).exit();
    assert_eq!(status.code(), Some(DONE), "{said:?}");
    let told =
        |part: &str| assert!(said.iter().any(|line| line.contains(part)), "“{part}” is not in {said:?}");
    told("forked children lose the far memory");
    told("the child has got SIGBUS");
    daemon.end();
    place.assert_nothing_left();
}

/// A process whose child waits until something has happened, and then touches what is not here.
fn with_a_child_that_waits(place: &Place, daemon: &Daemon) -> Process {
    let mut parent = Forker::new(Scene::Wait, daemon.remote()).start(place);
    parent.await_line("the child waits");
    parent
}

#[test]
fn a_child_whose_parent_has_died_gets_a_signal_and_no_zeros() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut parent = with_a_child_that_waits(&place, &daemon);
    parent.signal(Signal::KILL);
    parent.await_said(["needs far memory of process", "serves it no longer", "SIGBUS"]);
    parent.await_said("the child has got SIGBUS");
    let (status, said) = parent.exit();
    assert_eq!(status.code(), None, "{said:?}");
    daemon.end();
    place.assert_nothing_left();
}

#[test]
fn a_child_whose_memory_server_has_died_gets_a_signal() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let mut parent = with_a_child_that_waits(&place, &daemon);
    daemon.process.kill();
    parent.tell("go");
    let (status, said) = parent.exit();
    assert_eq!(status.code(), Some(DONE), "{said:?}");
    assert!(said.contains(&"the child has got SIGBUS".to_owned()), "{said:?}");
    place.assert_nothing_left();
}

#[test]
fn a_memory_server_that_stands_still_makes_children_wait() {
    let place = Place::new();
    let daemon = Daemon::memory(&place, &place.socket(), &[]);
    let forker = Forker { grace: Duration::from_secs(60), ..Forker::new(Scene::Wait, daemon.remote()) };
    let mut parent = forker.start(&place);
    parent.await_line("the child waits");
    daemon.process.stop();
    parent.tell("go");
    parent.await_line("the child touches");
    daemon.process.go_on();
    let (status, said) = parent.exit();
    assert_eq!(status.code(), Some(DONE), "{said:?}");
    daemon.end();
    place.assert_nothing_left();
}
