//! Machines that are wrong on purpose: the checkers notice each.

use std::cell::RefCell;

use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::application::chunks::TRANSITIONS;
use outboard_wire::paging::{FIXED_LEN_MAX, PagingReply, PagingRequest, PagingStatus};
use outboard_wire::{FrameHead, Time};

use super::application::Application;
use super::layout::WORD;
use super::server::Server;
use super::*;
use crate::wrong::Wrong;

/// How many seeds are tried until a mistake shows.
const SEEDS: u64 = 60;

/// Every other run is hard on those who make mistakes: many threads, links that break, servers that are late.
fn setting(seed: u64) -> Setting {
    let mut setting = Setting::draw(&mut chances(seed, "pager"));
    if seed % 2 == 1 {
        let Setting { weather, shape, late_max, .. } = &mut setting;
        weather.plan.delay_max = weather.plan.delay_min + Duration::from_micros(100);
        weather.plan.close = 0.03;
        *late_max = Duration::from_millis(10);
        shape.press();
    }
    setting
}

/// The promises that an application with this mistake breaks under the first seeds, with such servers.
fn broken<S: Service + 'static>(
    mistake: fn(&mut Application),
    hide_server: fn(Server) -> S,
    seeds: u64,
) -> impl Iterator<Item = String> {
    (0..seeds).filter_map(move |seed| {
        let recorder = Recorder::new(8);
        let hide = move |machine| Wrong { machine, mistake };
        play_with(
            seed,
            &recorder,
            setting(seed),
            hide_server,
            (hide, |wrong: &Wrong<Application>| &wrong.machine),
        );
        recorder.broken().map(|broken| format!("seed {seed}: {}", broken.promise))
    })
}

/// Checks that a mistake in every turn of the application breaks the promise that `what` is part of.
fn assert_noticed(what: &str, mistake: fn(&mut Application)) {
    assert_any(what, broken(mistake, |server| server, SEEDS));
}

fn assert_any(what: &str, promises: impl Iterator<Item = String>) {
    let mut others = Vec::new();
    let found = promises.into_iter().find(|promise| {
        others.push(promise.clone());
        promise.contains(what)
    });
    assert!(found.is_some(), "not noticed, but {others:?}");
}

/// The promises that bytes break which are too old or were never stored, here and at the server.
const OLD: &str = "a load sees the newest store";
const OLD_IN_CHILD: &str = "a child sees far memory as it was when it was forked";
const OLD_THERE: &str = "the server has what was";

#[test]
fn right_machines_keep_their_promises() {
    assert_eq!(broken(|_| (), |server| server, 12).next(), None);
}

#[test]
fn every_way_between_states_is_gone() {
    let mut edges = [0; TRANSITIONS.len()];
    for seed in 0..60 {
        let counts = RefCell::new([0; TRANSITIONS.len()]);
        let same = |application| application;
        play_with(
            seed,
            &Recorder::new(8),
            setting(seed),
            |server| server,
            (same, |application: &Application| {
                *counts.borrow_mut() = application.stats().edges;
                application
            }),
        );
        edges.iter_mut().zip(counts.into_inner()).for_each(|(sum, count)| *sum += count);
        if edges.iter().all(|count| *count > 0) {
            break;
        }
    }
    for (way, count) in TRANSITIONS.iter().zip(edges) {
        assert!(count > 0, "{way:?} never happened");
    }
}

#[test]
fn chunks_are_divided_and_come_as_a_whole_again() {
    let (mut of_chunks, mut of_pages) = (0, 0);
    for seed in 0..12 {
        let counts = RefCell::new((0, 0));
        let same = |application| application;
        play_with(
            seed,
            &Recorder::new(8),
            setting(seed),
            |server| server,
            (same, |application: &Application| {
                let stats = application.stats();
                *counts.borrow_mut() = (stats.faults_fetched, stats.faults_for_pages);
                application
            }),
        );
        let (fetched, for_pages) = counts.into_inner();
        of_chunks += fetched - for_pages;
        of_pages += for_pages;
    }
    assert!(of_chunks > 200 && of_pages > 100, "{of_chunks} faults on chunks, {of_pages} on pages");
}

#[test]
fn a_thread_that_is_not_woken_is_noticed() {
    assert_noticed("everything ends", |application| application.far.space().state().woken.clear());
}

#[test]
fn a_fault_that_is_not_heard_is_noticed() {
    assert_noticed("everything ends", |application| application.far.space().state().faults.clear());
}

#[test]
fn a_store_that_is_lost_is_noticed() {
    // As if a store had been made while the page left. The word is the one that every thread loads first.
    assert_noticed(OLD, |application| {
        let address = application.far.objects[0].parts[0].start().plus(WORD);
        application.far.space().state().touch(address, Some(7));
    });
}

/// The mistakes of a wrong server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// It says that it has what it throws away.
    Forgets,
    /// It takes what was sent before a fence.
    TakesOld,
}

struct Mistaken {
    server: Server,
    mistake: Mistake,
    outbox: Outbox,
    sent: u32,
}

impl Mistaken {
    fn new(server: Server, mistake: Mistake) -> Self {
        Self { server, mistake, outbox: Outbox::default(), sent: 0 }
    }
}

impl Service for Mistaken {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.server.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let (kind, len) = (frame.head.kind, PagingRequest::fixed_len(frame.head.kind).unwrap_or(0));
        let mut fixed = [0; FIXED_LEN_MAX];
        frame.payload.read(0, &mut fixed[..len]);
        let Ok(PagingRequest::WriteBack(mut back)) =
            PagingRequest::decode(kind, &fixed[..len], frame.payload.len() - len)
        else {
            return self.server.on_frame(link, frame, now);
        };
        self.sent += 1;
        if self.mistake == Mistake::Forgets && self.sent.is_multiple_of(8) {
            let reply = PagingReply::Written { status: PagingStatus::Done, epoch: back.epoch };
            let head = FrameHead::new(reply.kind()).with_tag(frame.head.tag);
            self.outbox.push_copy(link, head, reply.encode().as_bytes());
            return Disposition::Taken;
        }
        if self.mistake == Mistake::TakesOld {
            back.epoch = self.server.epoch(back.region);
        }
        let mut bytes = frame.payload.to_vec();
        bytes[..len].copy_from_slice(PagingRequest::WriteBack(back).encode().as_bytes());
        self.server.on_frame(link, Frame { payload: bytes[..].into(), ..frame }, now)
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.server.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        Ok(self.outbox.send(id, link)? | self.server.send(id, link, now)?)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.outbox.forget(link);
        self.server.on_lost(link, error, now);
    }
}

#[test]
fn a_server_that_forgets_what_it_acknowledges_is_noticed() {
    let hide = |server| Mistaken::new(server, Mistake::Forgets);
    let promise = broken(|_| (), hide, SEEDS).next().expect("a checker notices");
    assert!([OLD, OLD_THERE, OLD_IN_CHILD].iter().any(|old| promise.contains(old)), "{promise}");
}

#[test]
fn a_server_that_takes_what_was_fenced_off_is_noticed() {
    let hide = |server| Mistaken::new(server, Mistake::TakesOld);
    // It takes a link that is lost while its server is late.
    let promise = broken(|_| (), hide, 10 * SEEDS).next().expect("a checker notices");
    assert!([OLD, OLD_THERE, OLD_IN_CHILD].iter().any(|old| promise.contains(old)), "{promise}");
}

#[test]
fn applications_lose_what_their_servers_take_along_and_nothing_else() {
    let (mut told, mut lost) = (0, 0);
    for seed in 0..40 {
        let (mut setting, recorder) = (setting(seed), Recorder::new(8));
        setting.shape.lose_a_server();
        setting.weather.crash_every = Some(Duration::from_millis(40));
        let counts = RefCell::new((0, 0));
        let same = |application| application;
        play_with(
            seed,
            &recorder,
            setting,
            |server| server,
            (same, |application: &Application| {
                let losses = application.far.space().state().losses as u64;
                *counts.borrow_mut() = (application.walkers.told_of_loss, losses);
                application
            }),
        );
        assert_eq!(recorder.broken().map(|broken| format!("seed {seed}: {broken}")), None);
        let (of_run, losses) = counts.into_inner();
        (told, lost) = (told + of_run, lost + losses);
    }
    assert!(told > 0 && lost > 0, "{told} were told of {lost} losses");
}
