//! The agent: its workers, as they run in threads, taking turns in one node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outboard_agent::{RoutingConfig, RoutingWorker, SharedRouting, StatusPage};
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::{Role, Time};

use crate::Boot;

/// An agent that carries messages.
pub(super) struct Agent {
    workers: Vec<RoutingWorker>,
    /// Which worker has a link.
    owners: BTreeMap<LinkId, usize>,
    next_owner: usize,
    woken: Arc<[AtomicBool]>,
}

impl Agent {
    pub(super) fn new(boot: &mut Boot, config: RoutingConfig) -> Self {
        let woken: Arc<[AtomicBool]> = (0..config.workers).map(|_| AtomicBool::new(false)).collect();
        let wakes = Arc::clone(&woken);
        let wake = move |worker: usize| wakes[worker].store(true, Ordering::Relaxed);
        // Without some pages of memory there is nothing to simulate.
        let page = StatusPage::create(Role::Agent, "agent").expect("a page of memory");
        let key = [boot.random.u8(..); 16];
        let shared = SharedRouting::new(config, key, &boot.exports, &page, wake);
        let shared = Arc::new(shared.expect("some pages of memory"));
        let workers = (0..config.workers).map(|index| RoutingWorker::new(index, Arc::clone(&shared)));
        Self { workers: workers.collect(), owners: BTreeMap::new(), next_owner: 0, woken }
    }

    fn worker(&mut self, link: LinkId) -> Option<&mut RoutingWorker> {
        let index = *self.owners.get(&link)?;
        self.workers.get_mut(index)
    }

    fn deliver(&mut self) -> bool {
        let mut any = false;
        for (index, woken) in self.woken.iter().enumerate() {
            if woken.swap(false, Ordering::Relaxed) {
                self.workers[index].on_delivery();
                any = true;
            }
        }
        any
    }
}

impl Service for Agent {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        let mut moved = self.deliver();
        self.workers.iter_mut().for_each(|worker| moved |= worker.on_turn(now));
        moved
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: Origin, _: Time) {
        let owner = self.next_owner % self.workers.len();
        self.next_owner += 1;
        self.owners.insert(link, owner);
        self.workers[owner].on_open(link, peer);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.worker(link).map_or(Disposition::Taken, |worker| worker.on_frame(link, frame, now))
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, _: Time) {
        if let Some(worker) = self.worker(link) {
            worker.on_completion(link, &completion);
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let mut moved = self.deliver();
        if let Some(worker) = self.worker(id) {
            moved |= worker.send(id, link, now)?;
        }
        Ok(moved)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        if let Some(worker) = self.worker(link) {
            worker.on_lost(link);
        }
        self.owners.remove(&link);
    }

    fn next_deadline(&self) -> Option<Time> {
        let is_woken = self.woken.iter().any(|woken| woken.load(Ordering::Relaxed));
        let at_once = is_woken.then_some(Time::ZERO);
        self.workers.iter().filter_map(RoutingWorker::next_deadline).chain(at_once).min()
    }

    fn on_time(&mut self, now: Time) {
        self.deliver();
        self.workers.iter_mut().for_each(|worker| worker.on_time(now));
    }
}
