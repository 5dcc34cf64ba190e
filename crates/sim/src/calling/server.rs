//! The memory server: runs calls on its own memory, and moves slots about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use outboard_calling::{
    Access, CallerNumber, Client, Controller, ControllerConfig, Executor, ExecutorConfig, Operation, Outcome,
    Site, SlotTable, Ticket,
};
use outboard_driver::{LinkId, Origin, Outbox, Service};
use outboard_link::memory::Segment;
use outboard_link::{Disposition, Export, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_steering::{Reason, Site as Where};
use outboard_wire::calling::{CALL, OBSERVED, Observed, TABLE, TrapReason};
use outboard_wire::{FrameHead, Rights, Time};

use super::desk::{answer, submit};
use super::table::{self, GENERATION, KEY, REGION, SIZE};
use crate::{Boot, Recorder};

/// How much is done in one turn: little, so that calls of different sites mingle.
const FUEL_PER_TURN: u64 = 500;

/// The memory of the server. Every access ends at once.
struct Direct(Arc<Segment>);

impl Direct {
    fn with(&self, offset: u64, length: usize, use_it: impl FnOnce(&Segment, usize) -> u64) -> Access {
        match offset.checked_add(length as u64) {
            Some(end) if end <= SIZE as u64 => Access::Done(use_it(&self.0, offset as usize)),
            _ => Access::Refused(TrapReason::OutOfBounds),
        }
    }
}

impl Site for Direct {
    type Region = ();

    fn read(&mut self, (): &(), offset: u64, into: &mut [u8]) -> Access {
        self.with(offset, into.len(), |memory, at| {
            memory.window(at, into.len()).read(0, into);
            0
        })
    }

    fn write(&mut self, (): &(), offset: u64, from: &[u8]) -> Access {
        self.with(offset, from.len(), |memory, at| {
            memory.window_mut(at, from.len()).write(0, from);
            0
        })
    }

    fn compare_swap(&mut self, (): &(), offset: u64, (expected, desired): (u64, u64)) -> Access {
        self.with(offset, 8, |memory, at| {
            let word = memory.word(at);
            let swapped = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            swapped.unwrap_or_else(|found| found)
        })
    }

    fn fetch_add(&mut self, (): &(), offset: u64, addend: u64) -> Access {
        self.with(offset, 8, |memory, at| memory.word(at).fetch_add(addend, Ordering::SeqCst))
    }

    fn begin(&mut self, _: Ticket, (): &(), _: Operation<'_>) {
        unreachable!("no access of this site takes longer");
    }

    fn time(&mut self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        4
    }

    fn log(&mut self, _: &[u8]) {}
}

/// Runs calls, and tells everybody where slots are.
pub(super) struct Server {
    site: Direct,
    executor: Executor<()>,
    outbox: Outbox,
    clients: BTreeMap<LinkId, Client>,
    links: Vec<LinkId>,
    mover: Mover,
    recorder: Recorder,
}

/// Who moves slots.
enum Mover {
    /// Chance, far more often than anybody would.
    Chance { table: Box<SlotTable>, random: Rng, at: Time, every: Duration },
    /// What does it in earnest, by what callers tell, and when it did.
    Controller { controller: Box<Controller>, shifts: Vec<Time> },
}

impl Mover {
    fn table(&self) -> &SlotTable {
        match self {
            Self::Chance { table, .. } => table,
            Self::Controller { controller, .. } => controller.table(),
        }
    }
}

impl Server {
    pub(super) fn new(mut boot: Boot, recorder: Recorder) -> Self {
        // Without a page of memory there is nothing to simulate.
        let memory = Arc::new(Segment::create(c"outboard-sim", SIZE).expect("a page of memory"));
        let header = table::header();
        memory.window_mut(0, header.len()).write(0, &header);
        let keys = vec![(KEY, Rights::ALL)];
        boot.exports.add(Export {
            region: REGION,
            generation: GENERATION,
            memory: Arc::clone(&memory),
            keys,
        });
        Self {
            site: Direct(memory),
            executor: Executor::new(ExecutorConfig::default()),
            outbox: Outbox::default(),
            clients: BTreeMap::new(),
            links: Vec::new(),
            mover: if boot.random.bool() {
                let every = Duration::from_micros(boot.random.u64(200..20_000));
                Mover::Chance { table: Box::default(), random: boot.random, at: boot.now, every }
            } else {
                let controller = Controller::new(ControllerConfig::default(), boot.now);
                Mover::Controller { controller: Box::new(controller), shifts: Vec::new() }
            },
            recorder,
        }
    }

    /// Moves slots. Returns whether any were.
    fn move_slots(&mut self, now: Time) -> bool {
        let before = self.mover.table().epoch();
        match &mut self.mover {
            Mover::Chance { table, random, at, every } => {
                *at = now + *every;
                let (first, last) = (random.u8(..), random.u8(..));
                table.assign(first.min(last)..=first.max(last), Where::ALL[random.usize(..3)]);
            }
            Mover::Controller { controller, shifts } => {
                let total = controller.shifts_total();
                controller.on_time(now);
                let is_choice =
                    controller.shifts().next().is_some_and(|shift| shift.reason == Reason::Cheaper);
                if controller.shifts_total() > total && is_choice {
                    shifts.push(now);
                    check_budget(shifts, &self.recorder);
                }
            }
        }
        self.mover.table().epoch() > before
    }

    fn push_table(&mut self, link: LinkId) {
        self.outbox.push_copy(link, FrameHead::new(TABLE), &self.mover.table().to_wire().encode());
    }
}

impl Service for Server {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        if self.executor.is_idle() {
            return false;
        }
        let Self { site, executor, outbox, links, .. } = self;
        executor.run(now, site, FUEL_PER_TURN, |outcome: Outcome<'_>| answer(outbox, links, outcome));
        true
    }

    fn on_open(&mut self, link: LinkId, _: &Peer, _: Origin, _: Time) {
        let client = table::open(&mut self.executor, &());
        if client.index() >= self.links.len() {
            self.links.resize(client.index() + 1, link);
        }
        self.links[client.index()] = link;
        self.clients.insert(link, client);
        self.push_table(link);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if let (OBSERVED, Mover::Controller { controller, .. }) = (frame.head.kind, &mut self.mover) {
            match Observed::decode(&frame.payload.to_vec()) {
                Ok(observed) => controller.on_observed(now, CallerNumber(link.0), &observed),
                Err(error) => self.recorder.fail(format!("reports can be read: {error}")),
            }
        }
        match self.clients.get(&link) {
            Some(client) if frame.head.kind == CALL => {
                submit(&mut self.executor, (*client, link), frame, now, &mut self.outbox)
            }
            _ => Disposition::Taken,
        }
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.outbox.forget(link);
        if let Some(client) = self.clients.remove(&link) {
            self.executor.close(client);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        match &self.mover {
            Mover::Chance { at, .. } => Some(*at),
            Mover::Controller { controller, .. } => controller.next_deadline(),
        }
    }

    fn on_time(&mut self, now: Time) {
        if self.move_slots(now) {
            let links: Vec<LinkId> = self.clients.keys().copied().collect();
            links.into_iter().for_each(|link| self.push_table(link));
        }
    }
}

/// Any span holds at most so many moves.
fn check_budget(shifts: &[Time], recorder: &Recorder) {
    let ControllerConfig { shift_burst, shift_period, .. } = ControllerConfig::default();
    for (index, first) in shifts.iter().enumerate() {
        let (count, span) = (shifts.len() - index, shifts[shifts.len() - 1].since(*first));
        let most = f64::from(shift_burst) + span.as_secs_f64() / shift_period.as_secs_f64();
        recorder
            .expect(count as f64 <= most + 1e-9, || format!("{count} moves within {span:?} are too many"));
    }
}
