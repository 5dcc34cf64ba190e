//! The thread that receives and makes connections and gives every open link to a worker.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outboard_link::{Address, Clock, ConnectError, Exports, Identity, ofi, shm, tcp};
use outboard_wire::Time;
use rustix::io::Errno;

use crate::listener::Listener;
use crate::mailbox::Mailbox;
use crate::pending::Pending;
use crate::poller::{Interest, Poller};
use crate::pulse::Pulse;
use crate::worker::WorkerHandle;
use crate::{NewLink, Origin};

/// A peer to connect to, and to connect to again whenever the link is lost.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Where it is.
    pub address: Address,
    /// Whom we say we are.
    pub identity: Identity,
    /// What it may reach here.
    pub exports: Arc<Exports>,
    /// Which worker owns the link, by its place among the desk's; any, if none.
    pub worker: Option<usize>,
}

/// The settings of a front desk.
#[derive(Clone, Debug)]
pub struct FrontDeskConfig {
    /// The settings of links within the node.
    pub shm: shm::Config,
    /// The settings of links between nodes.
    pub tcp: tcp::Config,
    /// The settings of links between nodes of a fabric.
    pub ofi: ofi::Config,
    /// How many handshakes may be under way; when another comes, the oldest is dropped. Default 1024, a
    /// descriptor and about 1 KiB each, up to 20 KiB where they are encrypted.
    pub handshakes_max: usize,
    /// The same of those over fabrics, each of which takes some 20 MB until it is over; default 16.
    pub fabric_handshakes_max: usize,
    /// How long to wait before a lost or refused peer is dialled again; default 50 ms, doubled up to 2 s.
    pub redial: Duration,
}

impl Default for FrontDeskConfig {
    fn default() -> Self {
        Self {
            shm: shm::Config::default(),
            tcp: tcp::Config::default(),
            ofi: ofi::Config::default(),
            handshakes_max: 1024,
            fabric_handshakes_max: 16,
            redial: Duration::from_millis(50),
        }
    }
}

/// The longest wait between two dials.
const REDIAL_MAX: Duration = Duration::from_secs(2);
/// How often handshakes without news are looked at.
const SWEEP: Duration = Duration::from_millis(20);
/// How long a listener that could not receive is left alone.
const DEAF: Duration = Duration::from_millis(100);
/// A worker whose turn takes as long is given no links while there are others.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// How many connections are taken from one listener in one turn.
const ACCEPTS_PER_TURN: usize = 64;

/// An order to the front desk.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// The link of this dial is lost.
    Redial(usize),
    Stop,
}

struct Waiting {
    pending: Box<dyn Pending>,
    origin: Origin,
    /// Who is to own the link; any, if none.
    worker: Option<usize>,
}

/// Where a dial stands.
enum DialState {
    Rest { until: Time, pause: Duration },
    UnderWay { pause: Duration },
    Open,
}

/// Receives and makes connections. A peer that says nothing or nonsense costs a place among the handshakes until
/// its time is up, and nobody else anything.
pub struct FrontDesk<N, R> {
    config: FrontDeskConfig,
    clock: Clock,
    poller: Poller,
    orders: Arc<Mailbox<Order>>,
    listeners: Vec<Listener>,
    dials: Vec<(Dial, DialState)>,
    /// By age: the first is the oldest.
    waiting: BTreeMap<u64, Waiting>,
    /// Listeners that are not watched, and until when.
    deaf: Vec<(usize, Time)>,
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
        Ok(Self {
            next_key: 1 + listeners.len() as u64,
            dials: dials.into_iter().map(rest).collect(),
            config,
            clock,
            poller,
            orders,
            listeners,
            waiting: BTreeMap::new(),
            deaf: Vec::new(),
            workers,
            next_worker: 0,
            pulse: Arc::default(),
            report,
        })
    }

    /// What ends [`run`](FrontDesk::run) from another thread.
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
            DialState::UnderWay { .. } | DialState::Open => None,
        });
        let sweep = (!self.waiting.is_empty()).then(|| now + SWEEP);
        let hearing = self.deaf.iter().map(|(_, until)| *until);
        resting.chain(sweep).chain(hearing).min()
    }

    fn accept(&mut self, listener: usize, now: Time) {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listeners[listener].accept(now) {
                Ok(Some(pending)) => {
                    self.admit(pending, (Origin::Accepted, self.listeners[listener].worker()), now);
                }
                Ok(None) => break,
                Err(error) => {
                    // Most likely no descriptor is left: the oldest stranger gives its own back, and nobody is
                    // received for a while.
                    self.drop_oldest_stranger(|_| true);
                    self.poller.remove(self.listeners[listener].descriptor());
                    self.deaf.push((listener, now + DEAF));
                    (self.report)(&error);
                    break;
                }
            }
        }
    }

    /// Listens again where receiving had failed.
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

    /// Makes room among the handshakes. Those that we began ourselves stay: nobody else would begin them again.
    fn drop_oldest_stranger(&mut self, is_one: impl Fn(&dyn Pending) -> bool) {
        let is_one = |waiting: &Waiting| waiting.origin == Origin::Accepted && is_one(&*waiting.pending);
        let oldest = self.waiting.iter().find(|(_, waiting)| is_one(waiting));
        if let Some(key) = oldest.map(|(key, _)| *key) {
            self.forget(key);
        }
    }

    /// Ends a handshake. Closing its socket is not enough: the poller would go on to watch one that something else holds
    /// as well.
    fn forget(&mut self, key: u64) {
        if let Some(waiting) = self.waiting.remove(&key)
            && let Some(descriptor) = waiting.pending.descriptor()
        {
            self.poller.remove(descriptor);
        }
    }

    fn admit(&mut self, pending: Box<dyn Pending>, (origin, worker): (Origin, Option<usize>), now: Time) {
        if self.waiting.len() >= self.config.handshakes_max {
            self.drop_oldest_stranger(|_| true);
        }
        let dear = || self.waiting.values().filter(|waiting| waiting.pending.is_dear()).count();
        if pending.is_dear() && dear() >= self.config.fabric_handshakes_max {
            self.drop_oldest_stranger(|pending| pending.is_dear());
        }
        let key = self.next_key;
        self.next_key += 1;
        if let Some(descriptor) = pending.descriptor()
            && let Err(source) = self.poller.add(descriptor, key, Interest::READ)
        {
            (self.report)(&ConnectError::System { call: "epoll_ctl", address: String::new(), source });
        }
        self.waiting.insert(key, Waiting { pending, origin, worker });
        self.advance(key, now);
    }

    fn advance(&mut self, key: u64, now: Time) {
        let Some(waiting) = self.waiting.get_mut(&key) else { return };
        let (origin, worker) = (waiting.origin, waiting.worker);
        match waiting.pending.advance(now) {
            Ok(None) => {}
            Ok(Some(link)) => {
                self.waiting.remove(&key);
                // From now on it is its worker that wakes for it.
                if let Some(on) = link.wait_on() {
                    self.poller.remove(on.descriptor);
                }
                self.give(link, origin, worker);
            }
            Err(error) => {
                self.forget(key);
                (self.report)(&error);
                if let Origin::Dialled(dial) = origin {
                    let pause = match self.dials[dial].1 {
                        DialState::UnderWay { pause } => (pause * 2).min(REDIAL_MAX),
                        DialState::Rest { .. } | DialState::Open => self.config.redial,
                    };
                    self.rest(dial, now, pause);
                }
            }
        }
    }

    fn give(&mut self, link: NewLink, origin: Origin, chosen: Option<usize>) {
        if let Origin::Dialled(dial) = origin {
            self.dials[dial].1 = DialState::Open;
        }
        let worker = chosen.unwrap_or_else(|| self.next_worker());
        if let Some(worker) = self.workers.get(worker) {
            worker.give(link, origin);
        }
    }

    /// Whose turn it is to be given a link: workers by turns, but for those that seem to be stuck.
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

    /// Looks at every handshake, so that the silent ones run out of time and the dials get on.
    fn sweep(&mut self, now: Time) {
        let due = |waiting: &Waiting| {
            waiting.pending.deadline() <= now || matches!(waiting.origin, Origin::Dialled(_))
        };
        let keys: Vec<u64> = self.waiting.iter().filter(|(_, w)| due(w)).map(|(key, _)| *key).collect();
        keys.into_iter().for_each(|key| self.advance(key, now));
    }

    fn dial_due(&mut self, now: Time) {
        for index in 0..self.dials.len() {
            let (dial, state) = &mut self.dials[index];
            let DialState::Rest { until, pause } = *state else { continue };
            if until > now {
                continue;
            }
            *state = DialState::UnderWay { pause };
            match begin(dial, &self.config, now) {
                Ok(pending) => {
                    let worker = self.dials[index].0.worker;
                    self.admit(pending, (Origin::Dialled(index), worker), now);
                }
                Err(error) => {
                    (self.report)(&error);
                    self.rest(index, now, (pause * 2).min(REDIAL_MAX));
                }
            }
        }
    }
}

fn begin(dial: &Dial, config: &FrontDeskConfig, now: Time) -> Result<Box<dyn Pending>, ConnectError> {
    let (identity, exports) = (dial.identity.clone(), Arc::clone(&dial.exports));
    Ok(match &dial.address {
        Address::Tcp(socket) => {
            Box::new(tcp::Dialing::new(*socket, identity, exports, config.tcp.clone(), now)?)
        }
        Address::Ofi(socket) => {
            Box::new(ofi::Dialing::new(*socket, identity, exports, config.ofi.clone(), now)?)
        }
        address => Box::new(shm::Dialing::new(address, identity, exports, config.shm.clone(), now)?),
    })
}
