//! A memory server: the desks of the product, on memory of its own, and slots that move about.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use outboard_calling::{
    AccessProgress, CallingDesk, ControllerConfig, ExecutorConfig, FindRegion, MeterReader, Refused,
    SharedController, SiteHost, SiteOperation, SlotDesk, SlotTable, Ticket,
};
use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::memory::Segment;
use outboard_link::{Disposition, Export, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_steering::{Reason, Site as Where};
use outboard_wire::calling::{
    ASK, Allowed, CallerId, RegisterRefusal, TABLE as SLOTS, TrapReason, is_calling,
};
use outboard_wire::{FrameHead, RegionId, Rights, Role, Time};

use super::agent::shared_calls;
use super::books::Books;
use super::functions::{CELLS, GENERATION, KEY, TABLE, header, size_of};
use crate::{Boot, Recorder};

/// The memory of a server. Every access ends at once.
struct Memory {
    regions: BTreeMap<RegionId, Arc<Segment>>,
}

impl Memory {
    fn with(
        &self,
        region: RegionId,
        (offset, length): (u64, usize),
        use_it: impl FnOnce(&Segment, usize) -> u64,
    ) -> AccessProgress {
        match (self.regions.get(&region), offset.checked_add(length as u64)) {
            (Some(memory), Some(end)) if end <= size_of(region) as u64 => {
                AccessProgress::Done(use_it(memory, offset as usize))
            }
            _ => AccessProgress::Refused(TrapReason::OutOfBounds),
        }
    }
}

impl SiteHost for Memory {
    type Region = RegionId;

    fn read(&mut self, region: &RegionId, offset: u64, into: &mut [u8]) -> AccessProgress {
        self.with(*region, (offset, into.len()), |memory, at| {
            memory.window(at, into.len()).read(0, into);
            0
        })
    }

    fn write(&mut self, region: &RegionId, offset: u64, from: &[u8]) -> AccessProgress {
        self.with(*region, (offset, from.len()), |memory, at| {
            memory.window_mut(at, from.len()).write(0, from);
            0
        })
    }

    fn compare_swap(
        &mut self,
        region: &RegionId,
        offset: u64,
        (expected, desired): (u64, u64),
    ) -> AccessProgress {
        self.with(*region, (offset, 8), |memory, at| {
            let word = memory.word(at);
            let swapped = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            swapped.unwrap_or_else(|found| found)
        })
    }

    fn fetch_add(&mut self, region: &RegionId, offset: u64, addend: u64) -> AccessProgress {
        self.with(*region, (offset, 8), |memory, at| memory.word(at).fetch_add(addend, Ordering::SeqCst))
    }

    fn begin(&mut self, _: Ticket, _: &RegionId, _: SiteOperation<'_>) {
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

/// The regions of a server, as callers ask for them.
struct Regions;

impl FindRegion for Regions {
    type Region = RegionId;

    fn find(&mut self, _: CallerId, allowed: &Allowed) -> Result<Option<RegionId>, Refused> {
        let Allowed { region, generation, key, .. } = *allowed;
        if [TABLE, CELLS].contains(&region) && generation == GENERATION && key == KEY {
            return Ok(Some(region));
        }
        Err((RegisterRefusal::NoRegion, format!("no {region} here")))
    }
}

/// The mover of slots.
enum Mover {
    /// Chance, far more often than a controller would.
    Chance { table: Box<SlotTable>, random: Rng, at: Time, every: Duration, asked: Vec<LinkId> },
    /// The controller, by what callers and agents tell, and when it moved some by choice.
    Controller { controller: Arc<SharedController>, reader: MeterReader, shifts: Vec<Time> },
}

/// One thread of the server.
struct Worker {
    desk: CallingDesk<RegionId>,
    slots: SlotDesk,
}

/// Runs calls by several workers that take turns in one node, and tells all callers where slots are.
pub(super) struct Server {
    memory: Memory,
    workers: Vec<Worker>,
    /// Which worker has a link, and who is at its other end.
    owners: BTreeMap<LinkId, (usize, Role)>,
    next_owner: usize,
    outbox: Outbox,
    mover: Mover,
    recorder: Recorder,
}

impl Server {
    pub(super) fn new(mut boot: Boot, recorder: Recorder, books: &Books) -> Self {
        let mut regions = BTreeMap::new();
        for region in [TABLE, CELLS] {
            // Without some pages of memory there is nothing to simulate.
            let memory =
                Arc::new(Segment::create(c"outboard-sim", size_of(region)).expect("pages of memory"));
            let keys = vec![(KEY, Rights::ALL)];
            boot.exports.add(Export { region, generation: GENERATION, memory: Arc::clone(&memory), keys });
            regions.insert(region, memory);
        }
        let header = header();
        regions[&TABLE].window_mut(0, header.len()).write(0, &header);
        books.own(Arc::clone(&regions[&CELLS]));
        let (calls, controller) = (shared_calls(), SharedController::new(ControllerConfig::default(), || {}));
        let workers: Vec<Worker> = (0..boot.random.usize(1..=2))
            .map(|_| {
                let desk = CallingDesk::new(Arc::clone(&calls), ExecutorConfig::default());
                Worker { desk, slots: SlotDesk::new(Arc::clone(&controller)) }
            })
            .collect();
        let mover = if boot.random.bool() {
            let every = Duration::from_micros(boot.random.u64(100..10_000));
            Mover::Chance {
                table: Box::default(),
                random: boot.random,
                at: boot.now,
                every,
                asked: Vec::new(),
            }
        } else {
            let reader = MeterReader::new(workers.iter().map(|worker| Arc::clone(worker.desk.meter())));
            Mover::Controller { controller, reader, shifts: Vec::new() }
        };
        let (memory, owners, outbox) = (Memory { regions }, BTreeMap::new(), Outbox::default());
        Self { memory, workers, owners, next_owner: 0, outbox, mover, recorder }
    }

    fn tell_table(&mut self) {
        let Self { mover, workers, outbox, .. } = self;
        match mover {
            Mover::Chance { table, asked, .. } => {
                let bytes = table.to_wire().encode();
                workers.iter_mut().for_each(|worker| worker.desk.set_label(table.label()));
                asked.iter().for_each(|link| outbox.push_copy(*link, FrameHead::new(SLOTS), &bytes));
            }
            Mover::Controller { .. } => {
                workers.iter_mut().for_each(|worker| worker.slots.tell_table(&mut worker.desk, outbox));
            }
        }
    }
}

impl Service for Server {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        let Self { workers, memory, outbox, .. } = self;
        let mut moved = false;
        workers.iter_mut().for_each(|worker| moved |= worker.desk.run(now, memory, outbox));
        moved
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, _: Time) {
        self.owners.insert(link, (self.next_owner % self.workers.len(), peer.intro().role));
        self.next_owner += 1;
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let Some((owner, role)) = self.owners.get(&link).copied() else { return Disposition::Taken };
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        let Worker { desk, slots } = &mut self.workers[owner];
        match (frame.head.kind, &mut self.mover) {
            (ASK, Mover::Chance { table, asked, .. }) => {
                asked.push(link);
                self.outbox.push_copy(link, FrameHead::new(SLOTS), &table.to_wire().encode());
            }
            (kind, Mover::Controller { .. }) if SlotDesk::is_about_slots(kind) => {
                slots.on_frame((link, frame, now), role == Role::Agent, desk, &mut self.outbox);
            }
            (kind, _) if SlotDesk::is_about_slots(kind) => {}
            (kind, _) if is_calling(kind) => {
                return desk.on_frame((link, frame, now), &mut Regions, &mut self.outbox);
            }
            // The only other question that callers have.
            _ => self.outbox.push_copy(link, frame.head, &frame.payload.to_vec()),
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.outbox.forget(link);
        if let Some((owner, _)) = self.owners.remove(&link) {
            self.workers[owner].desk.on_lost(link);
            self.workers[owner].slots.on_lost(link);
        }
        if let Mover::Chance { asked, .. } = &mut self.mover {
            asked.retain(|other| *other != link);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        match &self.mover {
            Mover::Chance { at, .. } => Some(*at),
            Mover::Controller { controller, .. } => controller.lock().next_deadline(),
        }
    }

    fn on_time(&mut self, now: Time) {
        let has_moved = match &mut self.mover {
            Mover::Chance { table, random, at, every, .. } if now >= *at => {
                *at = now + *every;
                let (first, last) = (random.u8(..), random.u8(..));
                table.assign(first.min(last)..=first.max(last), Where::ALL[random.usize(..3)]) > 0
            }
            Mover::Chance { .. } => false,
            Mover::Controller { controller, reader, shifts } => {
                let mut controller = controller.lock();
                let total = controller.shifts_total();
                controller.on_load(now, Where::Server, &reader.read(now));
                let has_moved = controller.on_time(now);
                let is_choice = controller.shifts().next().is_some_and(|it| it.reason == Reason::Cheaper);
                if controller.shifts_total() > total && is_choice {
                    shifts.push(now);
                    check_budget(shifts, &self.recorder);
                }
                has_moved
            }
        };
        if has_moved {
            self.tell_table();
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
