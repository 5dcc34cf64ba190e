//! How large the bundles are that agents give to their ranks, and how long messages take, as nodes are added.
//!
//! Every node has one agent and some ranks. Every rank sends messages of 16 bytes at the same steady rate to ranks drawn
//! from all, and sends what lies in open bundles every so often. So each rank gets as much however many nodes there are, but
//! from more and more sources, in smaller and smaller pieces. All links have the same delay and no limit of bandwidth; a
//! turn of a process takes at least a microsecond. Nothing goes wrong.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::loopback::FaultPlan;
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_routing::{Arrived, Buffers, Carrier, PackingConfig, RankService, RoutingConfig};
use outboard_wire::routing::{Form, MessageHead};
use outboard_wire::{Rank, Role, Time};

use super::agent::Agent;
use super::books::Books;
use super::layout::{Layout, Near, rank_name};
use super::near::Exported;
use crate::{Boot, Either, NodeId, NodeSpec, Recorder, Weather, World};

/// Ranks of a node.
const RANKS_PER_NODE: u32 = 4;
/// How long bundles are, and parcels between agents.
const BUNDLE: usize = 8 << 10;
const PARCEL: usize = 16 << 10;
/// How long a message with its head is.
const MESSAGE: usize = 16;
/// How often a rank has new messages, and how many then: 128 bytes every microsecond.
const TICK: Duration = Duration::from_micros(10);
const MESSAGES_PER_TICK: u32 = 80;
/// How often a rank sends what lies in open bundles.
const FLUSH: Duration = Duration::from_micros(100);
/// How long the wire takes.
const DELAY: Duration = Duration::from_micros(5);
/// Longer than anything takes.
const FOR_EVER: Duration = Duration::from_secs(3600);
/// How long it may take until all are connected.
const CONNECTED: Duration = Duration::from_secs(1);
/// The time that is not counted, until agents know how much to expect: half of the span, but no longer.
const WARM_UP: Duration = Duration::from_millis(1);

/// The result of a study.
#[derive(Clone, Copy, Debug)]
pub struct BundleStudy {
    /// How many nodes there were.
    pub nodes: u32,
    /// The average size of what agents gave to their ranks at once, in bytes.
    pub bundle_bytes: f64,
    /// How long messages took from their sending to their handling: the median.
    pub p50: Duration,
    /// The time that 99 of 100 did not exceed.
    pub p99: Duration,
    /// How many messages that rests on.
    pub messages: usize,
}

/// Watches so many nodes for so long.
pub fn bundle_study(nodes: u32, span: Duration, seed: u64) -> BundleStudy {
    let ranks = nodes * RANKS_PER_NODE;
    let layout = Layout { seed, ranks, agents: nodes, near: Near::None };
    let plan = FaultPlan { delay_min: DELAY, delay_max: DELAY, ..FaultPlan::none() };
    let weather = Weather { plan, ..Weather::fair() };
    let recorder = Recorder::new(1);
    let mut world: World<Either<Sender, Agent>> = World::new(seed, weather, recorder.clone());
    let books = Books::new(recorder, ranks);
    let book = Rc::new(RefCell::new(Vec::new()));
    let mut senders = Vec::new();
    for rank in 0..ranks {
        let book = Rc::clone(&book);
        senders.push(world.add(NodeSpec::immortal(rank_name(rank), Role::Application), move |boot| {
            Either::One(Sender::new(boot, layout, rank, Rc::clone(&book)))
        }));
    }
    let config = RoutingConfig {
        workers: 1,
        parcel_bytes: PARCEL,
        parcels: 512,
        packing: PackingConfig::default(),
        relays: false,
    };
    let agents: Vec<NodeId> = (0..nodes)
        .map(|number| {
            let spec = NodeSpec::immortal(format!("agent {number}"), Role::Agent);
            let known = (books.clone(), Exported::default());
            world.add(spec, move |boot: Boot| {
                Either::Other(Agent::new(boot, ranks + number, layout, config, known.clone()))
            })
        })
        .collect();
    for (index, agent) in agents.iter().enumerate() {
        agents[..index].iter().for_each(|other| world.connect(*agent, *other));
    }
    for (index, sender) in senders.iter().enumerate() {
        world.connect(*sender, agents[index / RANKS_PER_NODE as usize]);
    }
    let parcels = |world: &World<Either<Sender, Agent>>| {
        let carried = senders.iter().map(|node| match world.service(*node) {
            Some(Either::One(sender)) => sender.service.carried(),
            _ => Default::default(),
        });
        carried.fold((0, 0), |sum, carried| (sum.0 + carried.parcels, sum.1 + carried.parcel_bytes))
    };
    let is_ready = |world: &World<Either<Sender, Agent>>, node: &NodeId| match world.service(*node) {
        Some(Either::One(sender)) => sender.has_begun,
        _ => false,
    };
    world.run_until(Time::ZERO + CONNECTED, |world| senders.iter().all(|node| is_ready(world, node)));
    world.run_until(world.now() + WARM_UP.min(span / 2), |_| false);
    let before = parcels(&world);
    book.borrow_mut().clear();
    world.run_until(world.now() + span, |_| false);
    let after = parcels(&world);
    let mut took = book.borrow_mut();
    took.sort_unstable();
    let at = |share: f64| {
        let index = (took.len() as f64 * share) as usize;
        Duration::from_nanos(took.get(index).copied().unwrap_or(0))
    };
    let count = (after.0 - before.0).max(1);
    BundleStudy {
        nodes,
        bundle_bytes: (after.1 - before.1) as f64 / count as f64,
        p50: at(0.5),
        p99: at(0.99),
        messages: took.len(),
    }
}

/// An open bundle.
#[derive(Clone, Copy, Default)]
struct Lane {
    buffer: u32,
    len: usize,
    is_open: bool,
}

/// A rank that sends and receives without end.
struct Sender {
    service: RankService,
    rank: u32,
    lanes: Vec<Lane>,
    random: Rng,
    /// Whether the agent reaches all.
    has_begun: bool,
    tick_at: Time,
    flush_at: Time,
    arrived: Vec<Arrived>,
    /// How long messages have taken, in nanoseconds.
    book: Rc<RefCell<Vec<u64>>>,
}

impl Sender {
    fn new(mut boot: Boot, layout: Layout, rank: u32, book: Rc<RefCell<Vec<u64>>>) -> Self {
        let ranks = layout.ranks;
        let (sending, receiving) = Buffers::least(2, ranks);
        let counts = (sending + 2 * ranks + 64, receiving + 64);
        let buffers = Exported::default().take_buffers(BUNDLE, counts, (2, ranks), &mut boot.random);
        let mut service = RankService::new(layout.rank_config(rank, 1, FOR_EVER), buffers);
        service.set_carriage(Carrier::Agent);
        let (tick_at, flush_at) = (boot.now, boot.now);
        let lanes = vec![Lane::default(); ranks as usize];
        Self {
            service,
            rank,
            lanes,
            random: boot.random,
            has_begun: false,
            tick_at,
            flush_at,
            arrived: Vec::new(),
            book,
        }
    }

    fn append(&mut self, to: u32, now: Time) {
        let buffers = self.service.buffers();
        let lane = &mut self.lanes[to as usize];
        if !lane.is_open {
            // An application that finds no bundle would wait; this one is never so fast.
            let Some(buffer) = buffers.take(0) else { return };
            *lane = Lane { buffer, len: 0, is_open: true };
        }
        let head = MessageHead { size: (MESSAGE - MessageHead::LEN) as u32, rank: Rank(to) };
        let mut window =
            buffers.outgoing().window_mut().part(buffers.offset(lane.buffer) + lane.len, MESSAGE);
        window.write(0, &head.word().to_le_bytes());
        window.write(MessageHead::LEN, &now.as_nanos().to_le_bytes());
        lane.len += MESSAGE;
        if lane.len + MESSAGE > BUNDLE {
            self.seal(to);
        }
    }

    fn seal(&mut self, to: u32) {
        let lane = std::mem::take(&mut self.lanes[to as usize]);
        if lane.is_open {
            self.service.seal(to, (lane.buffer, lane.len as u32), 0, Form::Messages);
        }
    }

    fn handle(&mut self, now: Time) -> bool {
        let mut arrived = std::mem::take(&mut self.arrived);
        self.service.swap_arrived(&mut arrived);
        let any = !arrived.is_empty();
        let mut book = self.book.borrow_mut();
        for Arrived { slot, at, len, .. } in arrived.drain(..) {
            let buffers = self.service.buffers();
            let window =
                buffers.incoming().window().part(buffers.slot_offset(slot) + at as usize, len as usize);
            for message in (0..len as usize).step_by(MESSAGE) {
                let sent = u64::from_le_bytes(window.array::<8>(message + MessageHead::LEN));
                book.push(now.as_nanos().saturating_sub(sent));
            }
            self.service.buffers().give_slot_back(slot);
        }
        drop(book);
        self.arrived = arrived;
        any
    }
}

impl Service for Sender {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        let mut moved = self.handle(now);
        if !self.has_begun {
            self.has_begun = self.service.reached_by_agent() + 1 == self.lanes.len();
            // Not all at once: no rank is in step with others.
            let later = |span: Duration, share: f64| now + TICK + span.mul_f64(share);
            self.tick_at = later(TICK, self.random.f64());
            self.flush_at = later(FLUSH, self.random.f64());
        }
        while self.tick_at <= now {
            let (tick, ranks) = (self.tick_at, self.lanes.len() as u32);
            for _ in 0..MESSAGES_PER_TICK {
                let to = (self.rank + self.random.u32(1..ranks)) % ranks;
                self.append(to, tick);
            }
            self.tick_at += TICK;
            moved = true;
        }
        if self.flush_at <= now {
            (0..self.lanes.len() as u32).for_each(|to| self.seal(to));
            self.flush_at += FLUSH;
            moved = true;
        }
        moved
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.service.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.service.on_frame(link, frame, now)
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.service.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        self.service.send(id, link, now)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.service.on_lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        Some(self.tick_at.min(self.flush_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundles_stay_large_as_nodes_are_added_and_nothing_waits_longer() {
        let [two, eight] = [2, 8].map(|nodes| bundle_study(nodes, Duration::from_millis(2), 1));
        println!("{two:?}\n{eight:?}");
        assert!(two.messages > 10_000 && eight.messages > 10_000, "{two:?} {eight:?}");
        assert!(eight.bundle_bytes >= 0.8 * two.bundle_bytes, "{two:?} {eight:?}");
        assert!(eight.p99 <= 2 * two.p99, "{two:?} {eight:?}");
    }
}
