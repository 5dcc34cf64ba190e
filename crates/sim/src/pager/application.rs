//! The application: threads that use far memory, and fault threads that bring it.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::pager::ChunkKey;
use outboard_wire::Time;

use super::chores::Chores;
use super::jobs::Flight;
use super::lane::Lane;
use super::layout::{PLANS, Shape};
use super::model::{Model, Regions};
use super::pages::{Pages, facts, region_of};
use super::walkers::Walkers;
use crate::{Boot, Recorder};

/// The application.
pub(super) struct Application {
    pub(super) recorder: Recorder,
    pub(super) random: Rng,
    pub(super) shape: Shape,
    pub(super) pages: Pages,
    pub(super) flight: Flight,
    pub(super) lanes: Vec<Lane>,
    pub(super) walkers: Walkers,
    pub(super) chores: Chores,
    /// Faults that may show where a thread is going.
    touched: VecDeque<ChunkKey>,
    /// When there is something to do besides links and threads.
    pub(super) busy_at: Option<Time>,
}

impl Application {
    pub(super) fn new(boot: Boot, recorder: Recorder, regions: Regions, shape: Shape, until: Time) -> Self {
        let mut random = boot.random;
        let model = Model::new(recorder.clone(), regions);
        Self {
            pages: Pages::new(recorder.clone(), model, random.fork(), shape),
            walkers: Walkers::new(shape.walkers, random.fork(), boot.now, until),
            chores: Chores::new(boot.now, until),
            recorder,
            random,
            shape,
            flight: Flight::default(),
            lanes: (0..shape.lanes).map(|_| Lane::default()).collect(),
            touched: VecDeque::new(),
            busy_at: None,
        }
    }

    /// Whether all threads have stopped, and everything that was stored has been flushed.
    pub(super) fn is_idle(&self) -> bool {
        let is_still = self.flight.jobs.is_empty() && self.lanes.iter().all(Lane::is_idle);
        is_still && self.walkers.are_done() && self.chores.are_done()
    }

    /// What everybody waits for, for people.
    pub(super) fn explain(&self) -> String {
        let (jobs, faults) = (self.flight.jobs.len(), self.walkers.faults.len());
        let waits = self.walkers.waiting();
        format!("threads wait for {waits:?}, {jobs} chunks are under way, {faults} faults wait")
    }

    /// At the end: the server has all that was stored.
    pub(super) fn compare(&self) {
        self.pages.model.close();
    }

    fn lane(&self, link: LinkId) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.link == Some(link))
    }

    /// What a fault thread does besides its link.
    fn work(&mut self, lane: usize, now: Time) {
        let mut moved = self.walkers.run(now, &mut self.pages);
        for _ in 0..self.random.usize(1..=4) {
            let Some((key, access)) = self.walkers.faults.pop_front() else { break };
            moved = true;
            self.recorder.note("fault", &facts(key));
            if let Some(job) = self.pages.fault(key, access) {
                self.dispatch(lane, job);
            }
            self.touched.push_back(key);
        }
        // Whoever was woken may be quicker than whoever makes room.
        if self.random.bool() {
            self.wake(now);
            moved |= self.walkers.run(now, &mut self.pages);
        }
        moved |= self.look_ahead(lane);
        for shard in 0..self.pages.cells.len() {
            while let Some((key, _, access)) = self.pages.cells[shard].shard.unpark() {
                moved = true;
                match self.pages.fault(key, access) {
                    Some(job) => self.dispatch(lane, job),
                    None => break,
                }
            }
            moved |= self.pages.make_room(shard);
        }
        moved |= self.do_chores(now);
        self.wake(now);
        self.audit();
        let later = self.chores.next_at();
        self.busy_at = if moved { Some(now) } else { later };
    }

    fn wake(&mut self, now: Time) {
        for key in std::mem::take(&mut self.pages.woken) {
            self.walkers.wake(key, now);
        }
    }

    /// Asks for chunks that will be wanted.
    fn look_ahead(&mut self, lane: usize) -> bool {
        let Some(key) = self.touched.pop_front() else { return false };
        let ahead = self.pages.mapping(key.region).and_then(|mapping| mapping.ahead.touched(key.index));
        let Some(ahead) = ahead else { return true };
        for index in ahead.chunks() {
            self.recorder.expect(index < PLANS[region_of(key.region)].chunks, || {
                format!("what is asked for ahead is in the region: {index}")
            });
            let key = ChunkKey { index, ..key };
            if let Some(job) = self.pages.ahead(key, index == ahead.marker) {
                self.dispatch(lane, job);
            }
        }
        true
    }

    /// Something has changed that a fault thread should look at.
    fn disturb(&mut self, now: Time) {
        self.busy_at = Some(now);
    }
}

impl Service for Application {
    type Note = ();

    fn on_open(&mut self, link: LinkId, _: &Peer, origin: Origin, now: Time) {
        let Origin::Dialled(dial) = origin else { return };
        let count = self.lanes.len();
        self.lanes[dial % count].link = Some(link);
        self.disturb(now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if let Some(lane) = self.lane(link) {
            self.replied(lane, &frame);
            self.disturb(now);
        }
        Disposition::Taken
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        if let Some(lane) = self.lane(link) {
            self.completed(lane, completion);
            self.disturb(now);
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let Some(lane) = self.lane(id) else { return Ok(false) };
        let introduced = self.introduce(lane, link)?;
        self.work(lane, now);
        let sent = self.send_jobs(lane, link)?;
        Ok(sent || introduced)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, now: Time) {
        if let Some(lane) = self.lane(link) {
            self.lost(lane);
            self.disturb(now);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.busy_at.into_iter().chain(self.walkers.next_at()).min()
    }

    fn on_time(&mut self, now: Time) {
        let lane = self.random.usize(..self.lanes.len());
        self.work(lane, now);
        // A full link has room again some time.
        if self.lanes.iter().any(|lane| lane.link.is_some() && lane.partial.is_some()) {
            let later = now + Duration::from_micros(20);
            self.busy_at = Some(self.busy_at.map_or(later, |at| at.min(later)));
        }
    }
}
