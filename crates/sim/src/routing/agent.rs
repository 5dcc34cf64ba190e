//! The agent: its workers, as they run in threads, taking turns in one node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_routing::{RouterHost, RoutingConfig, RoutingCounts, RoutingWorker, SharedRouting};
use outboard_wire::{Rank, Time};

use super::books::Books;
use super::layout::Layout;
use super::near::{Exported, NearLink};
use crate::Boot;

/// The process around a router.
struct Host {
    woken: Vec<AtomicBool>,
    /// The router's words about its peers.
    warnings: Mutex<Vec<String>>,
}

impl RouterHost for Host {
    fn wake(&self, worker: usize) {
        self.woken[worker].store(true, Ordering::Relaxed);
    }

    fn warn(&self, text: &str) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    fn attached(&self, _: Rank) {}
    fn detached(&self) {}
    fn count(&self, _: RoutingCounts) {}
}

/// An agent that carries messages.
pub(super) struct Agent {
    node: u32,
    layout: Layout,
    books: Books,
    exported: Exported,
    workers: Vec<RoutingWorker>,
    /// Which worker has a link.
    owners: BTreeMap<LinkId, usize>,
    next_owner: usize,
    host: Arc<Host>,
}

impl Agent {
    pub(super) fn new(
        mut boot: Boot,
        node: u32,
        layout: Layout,
        config: RoutingConfig,
        (books, exported): (Books, Exported),
    ) -> Self {
        let woken = (0..config.workers).map(|_| AtomicBool::new(false)).collect();
        let host = Arc::new(Host { woken, warnings: Mutex::default() });
        let memory = exported.allocate(config.memory_bytes(), &mut boot.random);
        let shared = Arc::new(SharedRouting::new(config, memory, Arc::clone(&host) as Arc<dyn RouterHost>));
        let workers = (0..config.workers).map(|index| RoutingWorker::new(index, Arc::clone(&shared)));
        let workers = workers.collect();
        Self { node, layout, books, exported, workers, owners: BTreeMap::new(), next_owner: 0, host }
    }

    /// The things that it has kept although nothing is under way.
    pub(super) fn leftovers(&self) -> Option<String> {
        let kept: usize = self.workers.iter().map(RoutingWorker::kept).sum();
        (kept > 0).then(|| format!("agent {} has {kept} runs and parcels", self.node))
    }

    /// An agent finds nothing wrong with honest peers.
    fn check_peers(&self) {
        let warnings = self.host.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warning) = warnings.first() {
            self.books.fail(format!("no honest peer is given up, but {warning}"));
        }
    }

    fn worker(&mut self, link: LinkId) -> Option<&mut RoutingWorker> {
        let index = *self.owners.get(&link)?;
        self.workers.get_mut(index)
    }

    fn deliver(&mut self) -> bool {
        let mut any = false;
        for (index, woken) in self.host.woken.iter().enumerate() {
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
        self.check_peers();
        let mut moved = self.deliver();
        self.workers.iter_mut().for_each(|worker| moved |= worker.on_turn(now));
        moved
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, _: Time) {
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
        let is_near = self.layout.is_near(self.node, link.peer());
        let exported = self.exported.clone();
        let Some(worker) = self.worker(id) else { return Ok(moved) };
        if !is_near {
            return Ok(moved | worker.send(id, link, now)?);
        }
        let mut near = NearLink::new(link, &exported);
        moved |= worker.send(id, &mut near, now)?;
        Ok(moved | (near.completions(|completion| worker.on_completion(id, &completion)) > 0))
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        if let Some(worker) = self.worker(link) {
            worker.on_lost(link);
        }
        self.owners.remove(&link);
    }

    fn next_deadline(&self) -> Option<Time> {
        let is_woken = self.host.woken.iter().any(|woken| woken.load(Ordering::Relaxed));
        let at_once = is_woken.then_some(Time::ZERO);
        self.workers.iter().filter_map(RoutingWorker::next_deadline).chain(at_once).min()
    }

    fn on_time(&mut self, now: Time) {
        self.deliver();
        self.workers.iter_mut().for_each(|worker| worker.on_time(now));
    }
}
