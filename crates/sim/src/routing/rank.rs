//! A rank: the service that its own thread runs, and an application that sends and handles messages.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::routing::{Arrived, Buffers, RankConfig, RankService};
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_routing::Carriage;
use outboard_wire::routing::{Form, MessageHead};
use outboard_wire::{Rank, RegionId, Time};

use super::ledger::Ledger;
use crate::{Boot, Recorder};

/// How long bundles are.
const BUNDLE: usize = 1 << 10;
/// A message: a head, its number, and as many bytes as fit in between.
const MESSAGE: usize = 24;

/// How an application behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// How many messages it sends.
    pub(super) messages: u64,
    /// The mean time between two bundles.
    pub(super) pause: Duration,
    /// How many message spaces there are.
    pub(super) spaces: u8,
    /// Whether it changes its mind about who carries its messages.
    pub(super) is_fickle: bool,
    /// Who carries them at first.
    pub(super) carriage: Carriage,
}

/// A rank.
pub(super) struct RankNode {
    service: RankService,
    rank: u32,
    ranks: u32,
    habits: Habits,
    random: Rng,
    recorder: Recorder,
    ledger: Rc<RefCell<Ledger>>,
    next: u64,
    next_at: Time,
    arrived: Vec<Arrived>,
    /// What has arrived and is not handled yet.
    pub(super) unhandled: Vec<Arrived>,
}

impl RankNode {
    pub(super) fn new(
        boot: Boot,
        config: RankConfig,
        habits: Habits,
        recorder: Recorder,
        ledger: Rc<RefCell<Ledger>>,
    ) -> Self {
        let (rank, ranks) = (config.rank, config.members.len() as u32);
        let sets = usize::from(habits.spaces) + 1;
        let (sending, receiving) = Buffers::least(sets, ranks);
        let counts = (sending + 4, receiving + 2);
        let buffers = Buffers::new(&boot.exports, RegionId(1), BUNDLE, counts, (sets, ranks));
        // Without some pages of memory there is nothing to simulate.
        let mut service = RankService::new(config, buffers.expect("some pages of memory"));
        service.set_carriage(habits.carriage);
        let (random, next_at) = (boot.random, boot.now);
        let (arrived, unhandled) = (Vec::new(), Vec::new());
        Self { service, rank, ranks, habits, random, recorder, ledger, next: 0, next_at, arrived, unhandled }
    }

    pub(super) fn is_done(&self) -> bool {
        self.next == self.habits.messages && self.service.kept() == 0 && self.unhandled.is_empty()
    }

    /// How much has gone by the agent.
    pub(super) fn carried(&self) -> u64 {
        self.service.carried().bytes_sent
    }

    /// Sends some messages to somebody. Returns whether there was a bundle for them.
    fn send(&mut self, now: Time) -> bool {
        let space = self.random.u8(..self.habits.spaces);
        let to = (self.rank + self.random.u32(1..self.ranks)) % self.ranks;
        let buffers = self.service.buffers();
        let Some(buffer) = buffers.take(space) else { return false };
        let at = buffers.offset(buffer);
        let most = self.random.u64(1..=(BUNDLE / MESSAGE) as u64).min(self.habits.messages - self.next);
        let mut len = 0;
        for number in self.next..self.next + most {
            let size = MESSAGE - MessageHead::LEN;
            let head = MessageHead { size: size as u32, rank: Rank(to) };
            let mut window = buffers.outgoing().window_mut(at, BUNDLE);
            window.write(len, &head.word().to_le_bytes());
            window.write(len + 8, &number.to_le_bytes());
            window.write(len + 16, &(u64::from(self.rank) << 32 | u64::from(to)).to_le_bytes());
            len += MESSAGE;
            self.ledger.borrow_mut().sent((self.rank, to, number), now);
        }
        self.next += most;
        self.service.seal(to, (buffer, len as u32), space, Form::Messages);
        true
    }

    /// Handles a bundle.
    fn handle(&mut self, arrived: Arrived) {
        let Arrived { source, slot, at, len, .. } = arrived;
        let buffers = self.service.buffers();
        let place = buffers.slot_offset(slot) + at as usize;
        let bytes = buffers.incoming().window().part(place, len as usize).to_vec();
        buffers.give_slot_back(slot);
        for message in bytes.chunks(MESSAGE) {
            let word = |at: usize| message.get(at..at + 8).and_then(|word| word.try_into().ok());
            let word = |at| word(at).map_or(0, u64::from_le_bytes);
            let letter = (source, self.rank, word(8));
            let is_whole = word(16) == (u64::from(source) << 32 | u64::from(self.rank));
            self.recorder
                .expect(is_whole, || format!("messages arrive as they were sent, {letter:?} did not"));
            if let Err(what) = self.ledger.borrow_mut().arrived(letter) {
                self.recorder.fail(what);
            }
        }
    }

    fn work(&mut self, now: Time) -> bool {
        let mut moved = false;
        self.service.swap_arrived(&mut self.arrived);
        self.unhandled.append(&mut self.arrived);
        // Some are left for later: spaces are not handled in the order in which their messages come.
        for index in (0..self.unhandled.len()).rev() {
            if self.random.u32(..4) > 0 {
                let arrived = self.unhandled.swap_remove(index);
                self.handle(arrived);
                moved = true;
            }
        }
        if now >= self.next_at && self.next < self.habits.messages {
            if self.habits.is_fickle && self.random.u32(..8) == 0 {
                let ways = [Carriage::Inline, Carriage::Agent];
                self.service.set_carriage(ways[self.random.usize(..2)]);
            }
            moved |= self.send(now);
            self.next_at = now + self.habits.pause.mul_f64(2.0 * self.random.f64());
        }
        moved
    }
}

impl Service for RankNode {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        self.work(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: Origin, now: Time) {
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
        let departed = self.service.departed();
        self.recorder.expect(departed.is_empty(), || format!("nobody is given up, but {departed:?}"));
    }

    fn next_deadline(&self) -> Option<Time> {
        let sends = (self.next < self.habits.messages).then_some(self.next_at);
        let handles = (!self.unhandled.is_empty()).then_some(Time::ZERO);
        self.service.next_deadline().into_iter().chain(sends).chain(handles).min()
    }

    fn on_time(&mut self, now: Time) {
        self.service.on_time(now);
    }
}
