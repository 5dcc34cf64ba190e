//! Links that have been quiet are left out of a worker's turns, and have them again as soon as there is a reason.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outboard_driver::{
    FrontDesk, FrontDeskConfig, LinkId, LinkOrigin, Listener, Outbox, Service, Worker, WorkerConfig,
    WorkerHandle,
};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{
    Address, Clock, Disposition, Exports, Frame, Identity, Link, LinkError, Peer, RemoteMemory, Waiter,
};
use outboard_wire::{FrameHead, FrameKind, Role, Room, Time};

/// Long enough for a loaded machine; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(20);
const NOTE: FrameHead = FrameHead::new(FrameKind::new(Room::Trial, 1));

#[derive(Debug, PartialEq)]
enum Event {
    Opened(String),
    Heard(String),
    /// The worker asks about this link no more.
    Rests(String),
    Lost(String),
}

/// Tells what happens to links, and which of them have no turns. If `is_busy`, the link named so never lets the worker
/// sleep.
struct Witness {
    events: Sender<Event>,
    outbox: Outbox,
    names: HashMap<LinkId, String>,
    asked: HashSet<LinkId>,
    told: HashSet<LinkId>,
    due: Time,
    is_busy: bool,
}

impl Witness {
    fn tell(&self, event: impl FnOnce(String) -> Event, link: LinkId) {
        // The test may have ended.
        let _ = self.events.send(event(self.names[&link].clone()));
    }
}

impl Service for Witness {
    /// The frames to send, and their links.
    type Note = (String, Vec<u8>);

    fn on_note(&mut self, (name, payload): Self::Note, _now: Time) {
        let (link, _) = self.names.iter().find(|(_, known)| **known == name).unwrap();
        self.outbox.push(*link, NOTE, payload);
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, _origin: LinkOrigin, _now: Time) {
        self.names.insert(link, peer.intro().name.to_string());
        self.tell(Event::Opened, link);
    }

    fn on_frame(&mut self, link: LinkId, _frame: Frame<'_>, _now: Time) -> Disposition {
        self.tell(Event::Heard, link);
        Disposition::Taken
    }

    fn rouse(&mut self, links: &mut Vec<LinkId>) -> bool {
        self.outbox.rouse(links);
        let resting: Vec<LinkId> = self.names.keys().filter(|id| !self.asked.contains(id)).copied().collect();
        self.told.retain(|link| !self.asked.contains(link));
        for link in resting {
            if self.told.insert(link) {
                self.tell(Event::Rests, link);
            }
        }
        self.asked.clear();
        true
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.asked.insert(id);
        let is_restless = self.is_busy && self.names[&id] == "busy";
        Ok(self.outbox.send(id, link)? || is_restless)
    }

    fn on_lost(&mut self, link: LinkId, _error: &LinkError, _now: Time) {
        self.tell(Event::Lost, link);
        self.outbox.forget(link);
        self.names.remove(&link);
    }

    /// Wakes the worker now and then, so that it is seen who has no turn.
    fn next_deadline(&self) -> Option<Time> {
        Some(self.due)
    }

    fn on_time(&mut self, now: Time) {
        self.due = now + Duration::from_millis(2);
    }
}

struct Running {
    addresses: Vec<Address>,
    events: Receiver<Event>,
    worker: WorkerHandle<(String, Vec<u8>)>,
    stop_desk: Box<dyn Fn()>,
    threads: Vec<JoinHandle<()>>,
}

/// How long a peer may be silent over TCP here.
const DEADLINE: Duration = Duration::from_millis(600);

fn start(is_busy: bool) -> Running {
    let (sender, events) = channel();
    let witness = Witness {
        events: sender,
        outbox: Outbox::default(),
        names: HashMap::new(),
        asked: HashSet::new(),
        told: HashSet::new(),
        due: Time::ZERO,
        is_busy,
    };
    let mut config = FrontDeskConfig::default();
    let stream = &mut config.links.tcp.stream;
    (stream.heartbeat, stream.deadline) = (DEADLINE / 6, DEADLINE);
    let identity = Identity::new(Role::Agent, "witness");
    let unique = identity.incarnation;
    let exports = Exports::new();
    let at = [format!("unix:@resting-{unique}"), "tcp:127.0.0.1:0".to_owned()];
    let bind = |at: &String| Listener::bind(&at.parse().unwrap(), &identity, &exports, &config).unwrap();
    let listeners: Vec<Listener> = at.iter().map(bind).collect();
    let addresses = listeners.iter().map(Listener::address).collect();
    let clock = Clock::start();
    let (worker, handle) = Worker::new(WorkerConfig::default(), clock, witness).unwrap();
    let desk = FrontDesk::new(config, clock, (listeners, Vec::new()), vec![handle.clone()], |_| {}).unwrap();
    let stop_desk = Box::new(desk.stopper());
    let threads = vec![
        std::thread::spawn(move || drop(worker.run().unwrap())),
        std::thread::spawn(move || desk.run().unwrap()),
    ];
    Running { addresses, events, worker: handle, stop_desk, threads }
}

impl Running {
    fn connect_shm(&self, name: &str) -> ShmLink {
        let (identity, config) = (Identity::new(Role::Tool, name), shm::ShmConfig::default());
        let link = shm::connect(&self.addresses[0], identity, Exports::new(), config).unwrap();
        self.await_event(&Event::Opened(name.to_owned()));
        link
    }

    fn connect_tcp(&self, name: &str) -> TcpLink {
        let Address::Tcp(socket) = self.addresses[1] else { panic!("it listens on tcp") };
        let (identity, config) = (Identity::new(Role::Tool, name), tcp::TcpConfig::default());
        let link = tcp::connect(socket, identity, Exports::new(), config).unwrap();
        self.await_event(&Event::Opened(name.to_owned()));
        link
    }

    /// Waits for an event; others may come before.
    #[track_caller]
    fn await_event(&self, wanted: &Event) {
        let until = Instant::now() + PATIENCE;
        loop {
            let event = self.events.recv_timeout(until.saturating_duration_since(Instant::now()));
            if event.as_ref().unwrap_or_else(|_| panic!("waited in vain for {wanted:?}")) == wanted {
                return;
            }
        }
    }

    fn stop(self) {
        (self.stop_desk)();
        self.worker.stop("test over");
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// A peer that speaks, a service that has something to say, and a peer that goes.
fn is_woken<L: Link>(running: &Running, mut link: L, name: &str) {
    let waiter = Waiter::new();
    for round in 0..3u8 {
        running.await_event(&Event::Rests(name.to_owned()));
        link.send(NOTE, b"still here").unwrap();
        link.flush().unwrap();
        running.await_event(&Event::Heard(name.to_owned()));
        running.worker.tell((name.to_owned(), vec![round; 8]));
        let answer = waiter.until(&mut link, PATIENCE, "an answer", |link| {
            let mut heard = None;
            link.receive(1, |frame| {
                heard = Some(frame.payload.to_vec());
                Disposition::Taken
            })?;
            Ok(heard)
        });
        assert_eq!(answer.unwrap(), [round; 8]);
    }
    running.await_event(&Event::Rests(name.to_owned()));
    drop(link);
    running.await_event(&Event::Lost(name.to_owned()));
}

#[test]
fn a_link_that_rests_is_woken_when_something_happens_to_it() {
    for is_busy in [false, true] {
        let running = start(is_busy);
        let busy = running.connect_shm("busy");
        is_woken(&running, running.connect_shm("by shm"), "by shm");
        is_woken(&running, running.connect_tcp("by tcp"), "by tcp");
        drop(busy);
        running.stop();
    }
}

#[test]
fn a_link_that_rests_shows_that_it_lives_and_misses_a_peer_that_does_not() {
    let running = start(false);
    let (mut live, dead) = (running.connect_tcp("live"), running.connect_tcp("dead"));
    let waiter = Waiter::new();
    let until = Instant::now() + PATIENCE;
    // Nothing is said for longer than the deadline, but that both are there.
    let missed = loop {
        assert!(Instant::now() < until, "a peer that says nothing is not missed");
        live.progress(waiter.clock.now()).unwrap();
        if let Ok(Event::Lost(name)) = running.events.recv_timeout(DEADLINE / 60) {
            break name;
        }
    };
    assert_eq!(missed, "dead");
    is_woken(&running, live, "live");
    drop(dead);
    running.stop();
}
