use std::cell::RefCell;

use outboard_driver::{LinkId, Origin};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::pager::{ChunkKey, Frame as Seat, SizeClass, State, TRANSITIONS};

use super::jobs::PageSet;
use super::layout::PAGE;
use super::space::Space;
use super::*;

/// What an application does wrong on purpose.
#[derive(Clone, Copy)]
struct Mistake {
    /// Before and after every turn of a link.
    on_turn: fn(&mut Application),
    /// When the link of this fault thread is lost, before it looks what that means.
    on_lost: fn(&mut Application, usize),
}

/// How many seeds are tried until a mistake shows.
const SEEDS: u64 = 100;

const NONE: Mistake = Mistake { on_turn: |_| (), on_lost: |_, _| () };

struct Mistaken {
    application: Application,
    mistake: Mistake,
}

impl Service for Mistaken {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: Origin, now: Time) {
        self.application.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.application.on_frame(link, frame, now)
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.application.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        (self.mistake.on_turn)(&mut self.application);
        let sent = self.application.send(id, link, now);
        (self.mistake.on_turn)(&mut self.application);
        sent
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        if let Some(lane) = self.application.lanes.iter().position(|lane| lane.link == Some(link)) {
            (self.mistake.on_lost)(&mut self.application, lane);
        }
        self.application.on_lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.application.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        self.application.on_time(now);
    }
}

/// The promises that an application with this mistake breaks under the first seeds.
fn broken(mistake: Mistake, seeds: u64) -> impl Iterator<Item = String> {
    (0..seeds).filter_map(move |seed| {
        let recorder = Recorder::new(8);
        let mut setting = Setting::draw(&mut chances(seed, "pager"));
        // Every other run is hard on those who make mistakes: many threads, links that break, a server that is late.
        if seed % 2 == 1 {
            let Setting { weather, shape, late_max } = &mut setting;
            weather.plan.delay_max = weather.plan.delay_min + Duration::from_micros(100);
            weather.plan.close = 0.03;
            *late_max = Duration::from_millis(10);
            (shape.lanes, shape.walkers, shape.shards, shape.config.budget) = (3, 6, 1, 8192);
            shape.piece_max = if seed % 4 == 1 { PAGE } else { 1024 };
        }
        let hide = move |application| Mistaken { application, mistake };
        play_with(seed, &recorder, setting, hide, |mistaken| &mistaken.application);
        recorder.broken().map(|broken| format!("seed {seed}: {}", broken.promise))
    })
}

/// Checks that a mistake in every turn breaks the promise that `what` is part of.
fn assert_noticed(what: &str, on_turn: fn(&mut Application)) {
    assert_any(what, Mistake { on_turn, ..NONE });
}

fn assert_any(what: &str, mistake: Mistake) {
    let mut others = Vec::new();
    let found = broken(mistake, SEEDS).find(|promise| {
        others.push(promise.clone());
        promise.contains(what)
    });
    assert!(found.is_some(), "not noticed, but {others:?}");
}

/// What is said of bytes that are too old or not what was stored, here and at the server.
const OLD: &str = "a load sees the newest store";
const OLD_THERE: &str = "the server has what was flushed";

#[test]
fn a_right_application_keeps_its_promises() {
    assert_eq!(broken(NONE, 12).next(), None);
}

#[test]
fn every_way_between_states_is_gone() {
    let mut edges = [0; TRANSITIONS.len()];
    for seed in 0..40 {
        let counts = RefCell::new(Vec::new());
        let setting = Setting::draw(&mut chances(seed, "pager"));
        play_with(
            seed,
            &Recorder::new(8),
            setting,
            |application| application,
            |application: &Application| {
                counts.replace(application.pages.cells.iter().map(|cell| *cell.shard.counts()).collect());
                application
            },
        );
        for count in counts.into_inner() {
            edges.iter_mut().zip(count.edges).for_each(|(sum, count)| *sum += count);
        }
        if edges.iter().all(|count| *count > 0) {
            break;
        }
    }
    for (way, count) in TRANSITIONS.iter().zip(edges) {
        assert!(count > 0, "{way:?} never happened");
    }
}

#[test]
fn changed_chunks_that_are_not_saved_are_noticed() {
    assert_noticed(OLD, |application| {
        for cell in &mut application.pages.cells {
            while let Some(seat) = cell.shard.save_next(|_| true) {
                cell.shard.sent(seat);
                cell.shard.saved(seat);
            }
        }
    });
}

#[test]
fn a_chunk_that_is_rescued_while_it_is_sent_is_noticed() {
    assert_noticed(OLD_THERE, |application| {
        let partial: Vec<u32> = application.lanes.iter().filter_map(|lane| lane.partial).collect();
        for number in partial {
            if let Some(job) = application.flight.jobs.get(&number).copied().filter(|job| job.is_save()) {
                application.pages.save_sent(&job);
            }
        }
    });
}

#[test]
fn a_failed_save_that_passes_for_saved_is_noticed() {
    let on_lost = |application: &mut Application, lane: usize| {
        for number in application.flight.of_lane(lane) {
            if application.flight.jobs[&number].is_save() {
                let job = application.flight.jobs.remove(&number).unwrap();
                application.pages.save_sent(&job);
                application.pages.save_ended(&job, true);
            }
        }
    };
    assert_any(OLD, Mistake { on_lost, ..NONE });
}

#[test]
fn a_chunk_that_is_fetched_before_its_save_is_acknowledged_is_noticed() {
    assert_noticed(OLD, |application| {
        let is_partial = |number: &u32| application.lanes.iter().any(|lane| lane.partial == Some(*number));
        let jobs = application.flight.jobs.iter();
        let sent = jobs.filter(|(number, job)| job.is_save() && !is_partial(number));
        let sent: Vec<u32> = sent.map(|(number, _)| *number).collect();
        for number in sent {
            let job = application.flight.jobs.remove(&number).unwrap();
            application.pages.save_ended(&job, true);
        }
    });
}

#[test]
fn what_a_lost_link_still_carries_is_noticed_without_a_fence() {
    assert_noticed(OLD_THERE, |application| {
        for (number, _) in application.lanes.iter_mut().flat_map(|lane| lane.fences.drain(..)) {
            application.pages.mapping(number).into_iter().for_each(|mapping| mapping.fencing -= 1);
        }
    });
}

#[test]
fn changes_that_are_taken_for_what_the_server_has_are_noticed() {
    assert_noticed(OLD, |application| {
        for shard in 0..application.pages.cells.len() {
            let seats = application.pages.cells[shard].shard.seats();
            let changed: Vec<_> = seats.filter(|(_, _, state)| *state == State::Dirty).collect();
            for (seat, ..) in changed {
                application.pages.take_notes(shard, seat, PageSet::first(8));
            }
        }
    });
}

#[test]
fn a_fault_that_is_parked_and_forgotten_is_noticed() {
    assert_noticed("everything ends", |application| {
        for cell in &mut application.pages.cells {
            while cell.shard.unpark().is_some() {}
        }
    });
}

#[test]
fn a_chunk_that_is_moved_behind_the_back_of_its_shard_is_noticed() {
    assert_noticed("in its region or in its frame", |application| {
        let seats = application.pages.cells[0].shard.seats();
        let aside = seats.into_iter().find(|(_, _, state)| *state == State::Aside);
        if let Some((seat, key, _)) = aside {
            let frame = application.pages.cells[0].shard.frame(seat);
            application.pages.space.move_in(0, frame, key);
        }
    });
}

/// The first promise that is broken by what is done to some memory.
fn space_breaks(act: fn(&mut Space, Seat, [ChunkKey; 2])) -> String {
    let recorder = Recorder::new(8);
    let mut space = Space::new(recorder.clone(), 1, 4096);
    let keys = [0, 1].map(|index| ChunkKey { region: 0, index });
    act(&mut space, Seat { class: SizeClass(9), slot: 3 }, keys);
    recorder.broken().map(|broken| broken.promise).unwrap_or_default()
}

#[test]
fn frames_and_places_are_watched() {
    let shared = space_breaks(|space, frame, [first, second]| {
        space.move_in(0, frame, first);
        space.move_in(0, frame, second);
    });
    assert!(shared.contains("has no bytes"), "{shared}");
    let twice = space_breaks(|space, frame, [first, _]| {
        space.move_in(0, frame, first);
        space.move_in(0, Seat { slot: 4, ..frame }, first);
    });
    assert!(twice.contains("already"), "{twice}");
    let elsewhere = space_breaks(|space, frame, [first, second]| {
        space.move_in(0, frame, first);
        space.move_out(0, frame, second);
    });
    assert!(elsewhere.contains("is of"), "{elsewhere}");
    let given_back = space_breaks(|space, frame, [first, _]| {
        space.move_in(0, frame, first);
        space.discard(0, frame);
    });
    assert!(given_back.contains("given back"), "{given_back}");
    let there_and_back = space_breaks(|space, frame, [first, _]| {
        space.move_in(0, frame, first);
        space.move_out(0, frame, first);
        space.discard(0, frame);
    });
    assert_eq!(there_and_back, "");
}
