//! Where links within a process are made.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use outboard_wire::Time;

use super::fault::{FaultCounts, FaultPlan, Tally};
use super::raw::RawEnd;
use super::wire::{LoopbackBytes, LoopbackWire};
use super::{LoopbackConfig, LoopbackLink};
use crate::stream::{self, Setup};
use crate::{ConnectError, Exports, Identity};

/// An end that answers a handshake, which is not finished.
pub type LoopbackAccepting = stream::Accepting<LoopbackBytes>;
/// An end that begins a handshake, which is not finished.
pub type LoopbackDialing = stream::Dialing<LoopbackBytes>;

/// The state that all connections of a network share.
pub(super) struct Shared {
    pub(super) seed: u64,
    plan: FaultPlan,
    /// The plan that is left once the network is calm.
    calm_plan: FaultPlan,
    is_calm: AtomicBool,
    pub(super) config: LoopbackConfig,
    pub(super) tally: Tally,
    now: AtomicU64,
    connections: AtomicU64,
    wires: Mutex<Vec<Weak<Mutex<LoopbackWire>>>>,
}

impl Shared {
    pub(super) fn plan(&self) -> &FaultPlan {
        if self.is_calm.load(Relaxed) { &self.calm_plan } else { &self.plan }
    }

    pub(super) fn now(&self) -> Time {
        Time::from_nanos(self.now.load(Relaxed))
    }

    /// Time never goes back.
    pub(super) fn advance(&self, now: Time) -> Time {
        Time::from_nanos(self.now.fetch_max(now.as_nanos(), Relaxed)).max(now)
    }

    pub(super) fn note(&self, wire: &Arc<Mutex<LoopbackWire>>) {
        let mut wires = self.wires.lock().unwrap_or_else(PoisonError::into_inner);
        wires.retain(|wire| wire.strong_count() > 0);
        wires.push(Arc::downgrade(wire));
    }
}

/// Makes links within this process. Clones are the same network.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

impl Network {
    /// A network on which everything happens by `seed` and `plan`.
    pub fn new(seed: u64, plan: FaultPlan) -> Self {
        Self::with_config(seed, plan, LoopbackConfig::default())
    }

    /// Replaces the default settings of links.
    pub fn with_config(seed: u64, plan: FaultPlan, config: LoopbackConfig) -> Self {
        Self(Arc::new(Shared {
            seed,
            calm_plan: FaultPlan::delayed(plan.delay_min, plan.delay_max),
            is_calm: AtomicBool::new(false),
            plan,
            config,
            tally: Tally::default(),
            now: AtomicU64::new(0),
            connections: AtomicU64::new(0),
            wires: Mutex::default(),
        }))
    }

    /// The latest time that anyone has named.
    pub fn now(&self) -> Time {
        self.0.now()
    }

    /// Lets time pass.
    pub fn advance(&self, now: Time) {
        self.0.advance(now);
    }

    /// When the next bytes arrive anywhere, so that a simulation can jump there. A time that has passed means at
    /// once. Links have deadlines of their own besides.
    pub fn next_event(&self) -> Option<Time> {
        let wires = self.0.wires.lock().unwrap_or_else(PoisonError::into_inner);
        let wires = wires.iter().filter_map(Weak::upgrade);
        wires.filter_map(|wire| wire.lock().unwrap_or_else(PoisonError::into_inner).first_event()).min()
    }

    /// From now on nothing goes wrong any more on any link, old or new; frames still take their time. A link that
    /// is damaged already stays so.
    pub fn calm(&self) {
        self.0.is_calm.store(true, Relaxed);
    }

    /// The faults that have struck so far.
    pub fn faults(&self) -> FaultCounts {
        self.0.tally.read()
    }

    /// A link between two identities; the handshake is done.
    pub fn connect(
        &self,
        first: Identity,
        first_exports: Arc<Exports>,
        second: Identity,
        second_exports: Arc<Exports>,
    ) -> Result<(LoopbackLink, LoopbackLink), ConnectError> {
        let (mut dialing, mut accepting) = self.meet(first, first_exports, second, second_exports)?;
        let now = self.now();
        // Nothing delays a handshake, so each side finds what the other has just said.
        let hung_up = || ConnectError::HungUp { address: "loopback".to_owned() };
        dialing.poll(now)?;
        let accepted = accepting.poll(now)?.ok_or_else(hung_up)?;
        let dialed = dialing.poll(now)?.ok_or_else(hung_up)?;
        Ok((dialed, accepted))
    }

    /// Two ends that have not shaken hands yet.
    pub fn meet(
        &self,
        first: Identity,
        first_exports: Arc<Exports>,
        second: Identity,
        second_exports: Arc<Exports>,
    ) -> Result<(LoopbackDialing, LoopbackAccepting), ConnectError> {
        let ([ours, theirs], number) = self.pair()?;
        let now = self.now();
        let dialing = LoopbackDialing::start(ours, self.setup(first, first_exports, number, "second"), now);
        let accepting =
            LoopbackAccepting::start(theirs, self.setup(second, second_exports, number, "first"), now);
        Ok((dialing, accepting))
    }

    /// A link that answers the handshake of the test that holds the raw end.
    pub fn accept_raw(
        &self,
        identity: Identity,
        exports: Arc<Exports>,
    ) -> Result<(LoopbackAccepting, RawEnd), ConnectError> {
        let ([raw, end], number) = self.pair()?;
        let setup = self.setup(identity, exports, number, "raw");
        Ok((LoopbackAccepting::start(end, setup, self.now()), RawEnd::new(raw)))
    }

    /// A link that begins a handshake with the test that holds the raw end.
    pub fn dial_raw(
        &self,
        identity: Identity,
        exports: Arc<Exports>,
    ) -> Result<(LoopbackDialing, RawEnd), ConnectError> {
        let ([end, raw], number) = self.pair()?;
        let setup = self.setup(identity, exports, number, "raw");
        Ok((LoopbackDialing::start(end, setup, self.now()), RawEnd::new(raw)))
    }

    fn pair(&self) -> Result<([LoopbackBytes; 2], u64), ConnectError> {
        self.0.config.stream.check()?;
        let number = self.0.connections.fetch_add(1, Relaxed);
        Ok((LoopbackBytes::pair(&self.0, number), number))
    }

    fn setup(&self, identity: Identity, exports: Arc<Exports>, number: u64, peer: &str) -> Setup {
        let terms = self.0.config.stream.clone();
        Setup { address: address(number, peer), identity, exports, terms }
    }
}

fn address(number: u64, end: &str) -> String {
    format!("loopback:{number}:{end}")
}
