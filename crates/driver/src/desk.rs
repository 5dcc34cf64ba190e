//! The thread that receives and makes connections and gives every open link to a worker.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use outboard_link::{AnyLink, Clock, ConnectError, Link, LinkConfigs, dial as dial_link};
use outboard_wire::Time;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::LinkOrigin;
use crate::dials::{self, Dial, DialState};
use crate::listener::Listener;
use crate::mailbox::Mailbox;
use crate::pending::Incoming;
use crate::poller::{Interest, Poller};
use crate::pulse::Pulse;
use crate::reserve::Reserve;
use crate::visitors::{Greeted, Shortage, Visitors, shortage};
use crate::worker::WorkerHandle;

/// The settings of a front desk.
#[derive(Clone, Debug)]
pub struct FrontDeskConfig {
    /// The settings of links.
    pub links: LinkConfigs,
    /// How many peers that have connected may be without a link; when another comes, it waits to be accepted until one
    /// has its link, or has said nothing for a quarter of a second. Default 4096, but at most a quarter of the
    /// descriptors that this process may have; a descriptor and about 1 KiB each, up to 20 KiB where they are encrypted.
    pub handshakes_max: usize,
    /// How many handshakes over fabrics may be under way, each of which takes some 20 MB until it is over; default 16.
    pub fabric_handshakes_max: usize,
    /// How long to wait before a lost or refused peer is dialled again; default 50 ms, doubled up to 2 s.
    pub redial: Duration,
}

impl Default for FrontDeskConfig {
    fn default() -> Self {
        Self {
            links: LinkConfigs::default(),
            handshakes_max: 4096,
            fabric_handshakes_max: 16,
            redial: Duration::from_millis(50),
        }
    }
}

/// How often handshakes without news are looked at.
const SWEEP: Duration = Duration::from_millis(20);
/// How long a listener that could not receive is left alone.
const DEAF: Duration = Duration::from_millis(100);
/// A worker whose turn takes as long is given no links while there are others.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// How many connections are taken from one listener in one turn.
const ACCEPTS_PER_TURN: usize = 256;
/// How long links are made in one turn, before the desk listens to others again.
const GREETING: Duration = Duration::from_millis(2);

/// An order to the front desk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// The link of this dial is lost.
    Redial(usize),
    Stop,
}

/// Receives and makes connections. A peer that says nothing or nonsense costs a place among the visitors until
/// its time is up, and no other peer anything. However many come at once, each is heard soon, told that its turn will
/// come, and served in turn.
pub struct FrontDesk<N, R> {
    config: FrontDeskConfig,
    clock: Clock,
    poller: Poller,
    orders: Arc<Mailbox<Order>>,
    listeners: Vec<Listener>,
    dials: Vec<(Dial, DialState)>,
    visitors: Visitors,
    /// Listeners that are not watched, and until when.
    deaf: Vec<(usize, Time)>,
    reserve: Reserve,
    next_key: u64,
    workers: Vec<WorkerHandle<N>>,
    next_worker: usize,
    pulse: Arc<Pulse>,
    report: R,
}

/// The poller's key of the mailbox; listeners follow, then handshakes.
const ORDERS_KEY: u64 = 0;

impl<N, R: FnMut(&ConnectError)> FrontDesk<N, R> {
    /// A desk that gives links to `workers` in turn and tells `report` of connections that came to nothing.
    pub fn new(
        config: FrontDeskConfig,
        clock: Clock,
        (listeners, dials): (Vec<Listener>, Vec<Dial>),
        workers: Vec<WorkerHandle<N>>,
        report: R,
    ) -> Result<Self, Errno> {
        let poller = Poller::new()?;
        let orders = Arc::new(Mailbox::new()?);
        poller.add(orders.descriptor(), ORDERS_KEY, Interest::READ)?;
        for (index, listener) in listeners.iter().enumerate() {
            poller.add(listener.descriptor(), 1 + index as u64, Interest::READ)?;
        }
        for worker in &workers {
            worker.set_desk(Arc::clone(&orders));
        }
        let rest = |dial| (dial, DialState::Rest { until: Time::ZERO, pause: config.redial });
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let visitors_max = config.handshakes_max.min(usize::try_from(descriptors / 4).unwrap_or(usize::MAX));
        Ok(Self {
            next_key: 1 + listeners.len() as u64,
            dials: dials.into_iter().map(rest).collect(),
            visitors: Visitors::new(visitors_max.max(1), config.fabric_handshakes_max),
            reserve: Reserve::new()?,
            config,
            clock,
            poller,
            pulse: orders.pulse(),
            orders,
            listeners,
            deaf: Vec::new(),
            workers,
            next_worker: 0,
            report,
        })
    }

    /// A handle that ends [`run`](FrontDesk::run) from another thread.
    pub fn stopper(&self) -> impl Fn() + Send + use<N, R> {
        let orders = Arc::clone(&self.orders);
        move || orders.post(Order::Stop)
    }

    /// How long its turns take.
    pub fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// Works until told to stop.
    pub fn run(mut self) -> Result<(), Errno> {
        let mut last_sweep = self.clock.now();
        loop {
            let now = self.clock.now();
            let until = self.next_look(now);
            self.pulse.rest(now);
            let keys: Vec<u64> = self.poller.wait(now, until)?.to_vec();
            let now = self.clock.now();
            self.pulse.turn(now);
            for key in keys {
                match key {
                    ORDERS_KEY => {
                        for order in self.orders.take() {
                            match order {
                                Order::Stop => return Ok(()),
                                Order::Redial(dial) => self.rest(dial, now, self.config.redial),
                            }
                        }
                    }
                    key if key <= self.listeners.len() as u64 => self.accept(key as usize - 1, now),
                    key => self.advance(key, now),
                }
            }
            self.greet();
            if now.since(last_sweep) >= SWEEP {
                last_sweep = now;
                self.sweep(now);
            }
            self.dial_due(now);
            self.listen_again(now);
        }
    }

    fn next_look(&self, now: Time) -> Option<Time> {
        let resting = self.dials.iter().filter_map(|(_, state)| match state {
            DialState::Rest { until, .. } => Some(*until),
            DialState::UnderWay { .. } => Some(now + SWEEP),
            DialState::Open => None,
        });
        let greet = self.visitors.can_greet().then_some(now);
        let sweep = (!self.visitors.is_empty()).then(|| now + SWEEP);
        let hearing = self.deaf.iter().map(|(_, until)| *until);
        resting.chain(greet).chain(sweep).chain(hearing).min()
    }

    fn accept(&mut self, listener: usize, now: Time) {
        let is_dear = self.listeners[listener].is_dear();
        for turn in 0..ACCEPTS_PER_TURN {
            // Only of the first it is known that a peer is there.
            match self.visitors.has_room(is_dear) {
                true => {}
                false if turn > 0 => return,
                false if self.visitors.drop_silent(is_dear, &self.poller, now) => {}
                false => return self.deafen(listener, now + SWEEP),
            }
            match self.listeners[listener].accept(now) {
                Ok(Some(handshake)) => self.admit(handshake, listener, None, now),
                Ok(None) => return,
                // It knows, and the next is none the worse for it.
                Err(error @ ConnectError::TurnedAway { .. }) => (self.report)(&error),
                Err(error) => match shortage(&error) {
                    Some(why) if self.accept_to_turn_away(listener, why, now) => {}
                    Some(_) => return self.deafen(listener, now + SWEEP),
                    None => {
                        (self.report)(&error);
                        return self.deafen(listener, now + DEAF);
                    }
                },
            }
        }
    }

    /// Uses a descriptor of the reserve for a peer for which there is no other, so that it is told. Returns false if that
    /// has to wait until another peer was told.
    fn accept_to_turn_away(&mut self, listener: usize, why: Shortage, now: Time) -> bool {
        if !self.reserve.give_up() {
            self.visitors.turn_silent_away(why, &self.poller, now).iter().for_each(&mut self.report);
            self.reserve.refill();
            if !self.reserve.give_up() {
                return false;
            }
        }
        let accepted = self.listeners[listener].accept(now);
        let is_done = match accepted {
            Ok(Some(handshake)) => {
                self.admit(handshake, listener, Some(why), now);
                true
            }
            Err(error @ ConnectError::TurnedAway { .. }) => {
                (self.report)(&error);
                true
            }
            Ok(None) | Err(_) => false,
        };
        self.reserve.refill();
        is_done
    }

    /// Leaves a listener alone for a while. Who connects meanwhile waits in the kernel's queue.
    fn deafen(&mut self, listener: usize, until: Time) {
        self.poller.remove(self.listeners[listener].descriptor());
        self.deaf.push((listener, until));
    }

    /// Listens again where that was put off.
    fn listen_again(&mut self, now: Time) {
        let due: Vec<usize> =
            self.deaf.extract_if(.., |(_, until)| *until <= now).map(|(listener, _)| listener).collect();
        for listener in due {
            let key = 1 + listener as u64;
            if self.poller.add(self.listeners[listener].descriptor(), key, Interest::READ).is_err() {
                self.deaf.push((listener, now + DEAF));
            }
        }
    }

    fn admit(
        &mut self,
        handshake: Box<dyn Incoming>,
        listener: usize,
        shortage: Option<Shortage>,
        now: Time,
    ) {
        let key = self.watch(handshake.descriptor());
        self.visitors.admit(key, handshake, (self.listeners[listener].worker(), shortage), now);
        self.advance(key, now);
    }

    /// Wakes for a handshake from now on, by a key of its own.
    fn watch(&mut self, descriptor: Option<BorrowedFd<'_>>) -> u64 {
        let key = self.next_key;
        self.next_key += 1;
        if let Some(descriptor) = descriptor
            && let Err(source) = self.poller.add(descriptor, key, Interest::READ)
        {
            // It is looked at now and then all the same.
            (self.report)(&ConnectError::System { call: "epoll_ctl", address: String::new(), source });
        }
        key
    }

    /// Goes on with the handshake of this key.
    fn advance(&mut self, key: u64, now: Time) {
        let is_it = |(_, state): &(Dial, DialState)| matches!(state, DialState::UnderWay { key: other, .. } if *other == key);
        match self.dials.iter().position(is_it) {
            Some(dial) => self.advance_dial(dial, now),
            None => {
                if let Some(error) = self.visitors.hear(key, &self.poller, now) {
                    (self.report)(&error);
                }
            }
        }
    }

    /// Makes links for those who were heard, for a while, and tells the others that their turn will come.
    fn greet(&mut self) {
        let began = self.clock.now();
        let mut now = began;
        self.visitors.try_again();
        while now.since(began) < GREETING
            && let Some(greeted) = self.visitors.greet_next(&self.poller, &mut self.reserve, now)
        {
            match greeted {
                Greeted::Link(link, worker) => self.give(link, LinkOrigin::Accepted, worker),
                Greeted::Failed(error) => (self.report)(&error),
                Greeted::NotYet => {}
            }
            now = self.clock.now();
        }
        self.visitors.reassure(&self.poller, now).iter().for_each(&mut self.report);
    }

    fn give(&mut self, link: AnyLink, origin: LinkOrigin, chosen: Option<usize>) {
        // From now on it is its worker that wakes for it.
        if let Some(on) = link.wait_on() {
            self.poller.remove(on.descriptor);
        }
        let worker = chosen.unwrap_or_else(|| self.next_worker());
        if let Some(worker) = self.workers.get(worker) {
            worker.give(link, origin);
        }
    }

    /// The worker whose turn it is to be given a link: by turns, but for those that seem to be stuck.
    fn next_worker(&mut self) -> usize {
        let (count, now) = (self.workers.len().max(1), self.clock.now());
        let is_stuck = |worker: usize| {
            let pulse = self.workers.get(worker).map(WorkerHandle::pulse);
            pulse.and_then(|pulse| pulse.under_way(now)).is_some_and(|took| took >= STUCK_AFTER)
        };
        let turns = self.next_worker + 1..=self.next_worker + count;
        self.next_worker = turns.clone().find(|turn| !is_stuck(turn % count)).unwrap_or(*turns.start());
        self.next_worker % count
    }

    fn rest(&mut self, dial: usize, now: Time, pause: Duration) {
        self.dials[dial].1 = DialState::Rest { until: now + pause, pause };
    }

    /// Looks at handshakes without news, so that the silent ones run out of time and the dials get on.
    fn sweep(&mut self, now: Time) {
        for key in self.visitors.due(now) {
            self.advance(key, now);
        }
        for dial in 0..self.dials.len() {
            self.advance_dial(dial, now);
        }
        self.reserve.refill();
    }

    fn advance_dial(&mut self, dial: usize, now: Time) {
        let DialState::UnderWay { handshake, pause, .. } = &mut self.dials[dial].1 else { return };
        match handshake.advance(now) {
            Ok(None) => {}
            Ok(Some(link)) => {
                self.dials[dial].1 = DialState::Open;
                self.give(link, LinkOrigin::Dialled(dial), self.dials[dial].0.worker);
            }
            Err(error) => {
                if let Some(descriptor) = handshake.descriptor() {
                    self.poller.remove(descriptor);
                }
                let pause = (*pause * 2).min(dials::PAUSE_MAX);
                (self.report)(&error);
                self.rest(dial, now, pause);
            }
        }
    }

    fn dial_due(&mut self, now: Time) {
        for index in 0..self.dials.len() {
            let (dial, state) = &mut self.dials[index];
            let DialState::Rest { until, pause } = *state else { continue };
            if until > now {
                continue;
            }
            let Dial { address, identity, exports, .. } = &*dial;
            match dial_link(address, identity.clone(), Arc::clone(exports), &self.config.links, now) {
                Ok(handshake) => {
                    let key = self.watch(handshake.descriptor());
                    self.dials[index].1 = DialState::UnderWay { key, handshake, pause };
                    self.advance_dial(index, now);
                }
                Err(error) => {
                    (self.report)(&error);
                    self.rest(index, now, (pause * 2).min(dials::PAUSE_MAX));
                }
            }
        }
    }
}
