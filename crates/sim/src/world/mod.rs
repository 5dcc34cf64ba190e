//! Nodes, the links between them, and time that jumps to the next event.
//!
//! A node runs a [`Service`], the same trait that worker threads run over real links. Each event concerns one
//! node and the nodes it is linked to; nothing walks over all of them, so that a thousand are possible.
//!
//! Every turn of a node takes at least a microsecond, so time goes on whatever the services do.

mod agenda;
mod node;
#[cfg(test)]
mod tests;

use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::loopback::{FaultCounts, LoopbackConfig, LoopbackLink, Network};
use outboard_link::{Exports, Identity, Link, StreamConfig};
use outboard_wire::{Incarnation, JobId, Rank, StoreId, Time, Versions};

use crate::weather::around;
use crate::{Recorder, Weather, chances};
use agenda::{Agenda, Happening};
use node::{Held, Life, Node, Rest};

pub use node::{Boot, NodeSpec};

/// A node of a world; also its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// How long a turn takes at least.
const TURN: Duration = Duration::from_micros(1);
/// A node that finds no room looks again after a turn, after two, after four and so on, up to a millisecond.
const FRUITLESS_MAX: u32 = 10;
/// The most frames that a link hands out in one turn; how many it is each time is a matter of luck.
const FRAMES_MAX: usize = 32;
/// The mean time before a lost link is dialled again.
const REDIAL: Duration = Duration::from_millis(5);
/// A silence of this length ends a link.
pub const LINK_DEADLINE: Duration = Duration::from_millis(100);

/// The hardships of a run, faults of the network included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hardships {
    /// The faults of frames and connections.
    pub network: FaultCounts,
    /// Nodes that lost everything.
    pub crashes: u64,
    /// Nodes that stopped for a while.
    pub pauses: u64,
}

impl Hardships {
    /// Each with its name.
    pub fn named(&self) -> [(&'static str, u64); 8] {
        let FaultCounts { delayed, duplicated, dropped, truncated, closed, torn } = self.network;
        [
            ("delayed", delayed),
            ("dropped", dropped),
            ("duplicated", duplicated),
            ("truncated", truncated),
            ("closed", closed),
            ("torn", torn),
            ("crashed", self.crashes),
            ("paused", self.pauses),
        ]
    }
}

struct Dial {
    from: usize,
    to: usize,
    /// The caller's end, while it is open.
    link: Option<LinkId>,
}

/// Nodes and the links between them, in virtual time.
pub struct World<S> {
    seed: u64,
    recorder: Recorder,
    weather: Weather,
    network: Network,
    random: Rng,
    now: Time,
    nodes: Vec<Node<S>>,
    dials: Vec<Dial>,
    /// The calls that each node makes.
    calls: Vec<Vec<usize>>,
    agenda: Agenda,
    next_link: u64,
    is_calm: bool,
    hardships: Hardships,
    /// Links of nodes that fell silent without hanging up. They are moved no more.
    graves: Vec<LoopbackLink>,
}

/// The id that the other end of a link has at its node.
pub fn other_end(link: LinkId) -> LinkId {
    LinkId(link.0 ^ 1)
}

impl<S: Service> World<S> {
    /// A world without nodes, in which everything follows from `seed`.
    pub fn new(seed: u64, weather: Weather, recorder: Recorder) -> Self {
        let stream = StreamConfig {
            buffer_bytes: 1 << 16,
            heartbeat: LINK_DEADLINE / 5,
            deadline: LINK_DEADLINE,
            ..StreamConfig::default()
        };
        let config = LoopbackConfig { stream, pipe_bytes: 1 << 14 };
        Self {
            seed,
            network: Network::with_config(seed, weather.plan.clone(), config),
            recorder,
            weather,
            random: chances(seed, "world"),
            now: Time::ZERO,
            nodes: Vec::new(),
            dials: Vec::new(),
            calls: Vec::new(),
            agenda: Agenda::default(),
            next_link: 2,
            is_calm: false,
            hardships: Hardships::default(),
            graves: Vec::new(),
        }
    }

    /// Adds a node, which begins its first life at once. `boot` makes the service of each life.
    pub fn add(&mut self, spec: NodeSpec, boot: impl FnMut(Boot) -> S + 'static) -> NodeId {
        let index = self.nodes.len();
        self.nodes.push(Node {
            name: spec.name.as_str().into(),
            spec,
            boot: Box::new(boot),
            lives: 0,
            life: None,
            wake: None,
            paused_until: Time::ZERO,
            fruitless: 0,
        });
        self.calls.push(Vec::new());
        self.plan(self.now, Happening::Start(index));
        if let Some(every) = self.weather.pause_every {
            self.plan_around(every, Happening::Pause(index));
        }
        NodeId(index)
    }

    /// Lets `from` call `to`, now and whenever the link is lost.
    pub fn connect(&mut self, from: NodeId, to: NodeId) {
        self.calls[from.0].push(self.dials.len());
        self.dials.push(Dial { from: from.0, to: to.0, link: None });
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The service of the node, if it lives.
    pub fn service(&self, node: NodeId) -> Option<&S> {
        self.nodes[node.0].life.as_ref().map(|life| &life.service)
    }

    /// The faults so far.
    pub fn hardships(&self) -> Hardships {
        Hardships { network: self.network.faults(), ..self.hardships }
    }

    /// From here on nothing goes wrong any more, but frames still take their time. Nodes that are down come back.
    pub fn calm(&mut self) {
        self.is_calm = true;
        self.network.calm();
        if !self.recorder.is_broken() {
            self.recorder.leave(self.now);
            self.recorder.note("calm", &[]);
        }
    }

    /// Lets things happen until `end`, until `done` says so, or until a promise is broken. Returns whether `done`.
    pub fn run_until(&mut self, end: Time, mut done: impl FnMut(&Self) -> bool) -> bool {
        while !self.recorder.is_broken() {
            if done(self) {
                return true;
            }
            let Some((at, what)) = self.agenda.next(end) else {
                self.now = self.now.max(end);
                self.recorder.leave(self.now);
                return false;
            };
            self.now = self.now.max(at);
            self.network.advance(self.now);
            self.happen(at, what);
        }
        false
    }

    fn happen(&mut self, at: Time, what: Happening) {
        match what {
            Happening::Wake(node) if self.nodes[node].wake == Some(at) => self.wake(node),
            Happening::Wake(_) => {}
            Happening::Dial(dial) => self.dial(dial),
            Happening::Start(node) => self.start(node),
            Happening::Crash(node) if !self.is_calm => self.crash(node),
            Happening::Pause(node) if !self.is_calm => self.pause(node),
            Happening::Crash(_) | Happening::Pause(_) => {}
        }
    }

    fn plan(&mut self, at: Time, what: Happening) {
        self.agenda.add(&mut self.random, at, what);
    }

    fn plan_around(&mut self, mean: Duration, what: Happening) {
        let at = self.now + around(&mut self.random, mean);
        self.plan(at, what);
    }

    fn plan_wake(&mut self, node: usize, at: Time) {
        let at = at.max(self.now + TURN);
        if self.nodes[node].wake.is_none_or(|wake| at < wake) {
            self.nodes[node].wake = Some(at);
            self.plan(at, Happening::Wake(node));
        }
    }

    fn wake(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.wake = None;
        let Some(life) = &mut node.life else { return };
        if self.now < node.paused_until {
            let until = node.paused_until;
            return self.plan_wake(index, until);
        }
        self.recorder.enter(self.now, &node.name);
        let turn = life.turn(self.now, self.random.usize(1..=FRAMES_MAX), &self.recorder);
        let rest = if turn.moved { Rest::Until(self.now) } else { life.rest(self.now) };
        node.fruitless = match rest {
            Rest::Stuck => (node.fruitless + 1).min(FRUITLESS_MAX),
            Rest::Until(_) => 0,
        };
        let at = match rest {
            Rest::Stuck => self.now + TURN * (1 << node.fruitless),
            Rest::Until(until) => until,
        };
        let late = self.lateness();
        self.plan_wake(index, at + late);
        for (id, held) in turn.lost {
            if let LinkOrigin::Dialled(dial) = held.origin {
                self.dials[dial].link = None;
                self.plan_around(REDIAL, Happening::Dial(dial));
            }
            let peer = held.peer;
            drop(held);
            self.nudge(peer, other_end(id));
        }
        self.nudge_peers(index);
    }

    fn lateness(&mut self) -> Duration {
        let most = self.weather.lateness_max.as_nanos() as u64;
        if self.is_calm { Duration::ZERO } else { Duration::from_nanos(self.random.u64(0..=most)) }
    }

    /// Lets a node run when one of its links has something for it.
    fn nudge(&mut self, index: usize, link: LinkId) {
        let Some(life) = &self.nodes[index].life else { return };
        let Some(deadline) = life.links.get(&link).and_then(|held| held.link.next_deadline()) else { return };
        if self.nodes[index].wake.is_none_or(|wake| deadline < wake) {
            let late = self.lateness();
            self.plan_wake(index, deadline.max(self.now) + late);
        }
    }

    fn nudge_peers(&mut self, index: usize) {
        let Some(life) = &self.nodes[index].life else { return };
        let peers: Vec<_> = life.links.iter().map(|(id, held)| (held.peer, other_end(*id))).collect();
        peers.into_iter().for_each(|(peer, link)| self.nudge(peer, link));
    }

    fn start(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.lives += 1;
        let mut random = chances(self.seed, &format!("{}/{}", node.name, node.lives));
        let incarnation = Incarnation(random.u64(1..));
        let identity = Identity {
            role: node.spec.role,
            name: node.spec.name.clone(),
            job: JobId(0),
            rank: Rank(index as u32),
            incarnation,
            versions: Versions::OURS,
            store: StoreId::NONE,
        };
        let exports = Exports::new();
        self.recorder.enter(self.now, &node.name);
        self.recorder.note("start", &[("life", node.lives), ("incarnation", incarnation.0)]);
        let boot = Boot { incarnation, exports: exports.clone(), random, now: self.now };
        let service = (node.boot)(boot);
        node.life = Some(Life { service, identity, exports, links: Default::default() });
        let is_mortal = node.spec.is_mortal;
        self.plan_wake(index, self.now);
        for dial in self.calls[index].clone() {
            self.plan(self.now, Happening::Dial(dial));
        }
        if let (true, Some(every)) = (is_mortal, self.weather.crash_every) {
            self.plan_around(every, Happening::Crash(index));
        }
    }

    /// A process dies, and its connections end; or a machine does, and no peer is told.
    fn crash(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Some(life) = node.life.take() else { return };
        node.wake = None;
        node.paused_until = self.now;
        let is_silent = self.random.bool();
        self.hardships.crashes += 1;
        self.recorder.enter(self.now, &node.name);
        self.recorder.note("crash", &[("silent", is_silent.into())]);
        let mut peers = Vec::new();
        for (id, held) in life.links {
            peers.push((held.peer, other_end(id)));
            if let LinkOrigin::Dialled(dial) = held.origin {
                self.dials[dial].link = None;
            }
            if is_silent {
                self.graves.push(held.link);
            }
        }
        peers.into_iter().for_each(|(peer, link)| self.nudge(peer, link));
        self.plan_around(self.weather.down, Happening::Start(index));
    }

    fn pause(&mut self, index: usize) {
        let span = self.weather.pause_max.mul_f64(self.random.f64());
        let node = &mut self.nodes[index];
        if node.life.is_some() {
            node.paused_until = self.now + span;
            self.hardships.pauses += 1;
            self.recorder.enter(self.now, &node.name);
            self.recorder.note("pause", &[("span_ns", span.as_nanos() as u64)]);
        }
        if let Some(every) = self.weather.pause_every {
            self.plan_around(span + every, Happening::Pause(index));
        }
    }

    fn dial(&mut self, number: usize) {
        let Dial { from, to, link } = self.dials[number];
        let runs = |node: &Node<S>| node.life.is_some() && node.paused_until <= self.now;
        if link.is_some() || self.nodes[from].life.is_none() {
            return;
        }
        if !runs(&self.nodes[from]) || !runs(&self.nodes[to]) {
            return self.plan_around(REDIAL, Happening::Dial(number));
        }
        let facts =
            |node: usize| self.nodes[node].life.as_ref().map(|l| (l.identity.clone(), l.exports.clone()));
        let (Some(caller), Some(called)) = (facts(from), facts(to)) else { return };
        let ends = match self.network.connect(caller.0, caller.1, called.0, called.1) {
            Ok(ends) => ends,
            Err(error) => return self.recorder.fail(format!("no link can be made: {error}")),
        };
        let id = LinkId(self.next_link);
        self.next_link += 2;
        self.dials[number].link = Some(id);
        self.open(from, id, Held { link: ends.0, origin: LinkOrigin::Dialled(number), peer: to });
        self.open(to, other_end(id), Held { link: ends.1, origin: LinkOrigin::Accepted, peer: from });
    }

    fn open(&mut self, index: usize, id: LinkId, held: Held) {
        let node = &mut self.nodes[index];
        let Some(life) = &mut node.life else { return };
        self.recorder.enter(self.now, &node.name);
        self.recorder.note("open", &[("link", id.0), ("peer", held.link.peer().incarnation().0)]);
        life.service.on_open(id, held.link.peer(), held.origin, self.now);
        life.links.insert(id, held);
        self.plan_wake(index, self.now);
    }
}
