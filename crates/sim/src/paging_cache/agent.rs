//! The agent: two of its workers, as they run in threads, taking turns in one node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use outboard_agent::{PagingConfig, PagingWorker, SharedPaging, StatusPage};
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::cache::{CacheConfig, Forwarding, PrefetchConfig};
use outboard_wire::{Role, Time};

use crate::Boot;

/// How many workers an agent has.
pub(super) const WORKERS: usize = 2;

/// What differs from one run to the next.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    slots: u32,
    forwarding: Forwarding,
    depth_max: u32,
}

impl Shape {
    pub(super) fn draw(random: &mut Rng) -> Self {
        let forwarding = Forwarding::ALL[random.usize(..3)];
        Self { slots: random.u32(0..6), forwarding, depth_max: random.u32(0..3) }
    }
}

/// Two workers of an agent, who share its cache.
pub(super) struct Agent {
    shared: Arc<SharedPaging>,
    workers: Vec<PagingWorker>,
    /// Which worker has a link.
    owners: BTreeMap<LinkId, usize>,
    next_owner: [usize; 2],
    woken: Arc<[AtomicBool; WORKERS]>,
}

impl Agent {
    pub(super) fn new(boot: &Boot, shape: Shape) -> Self {
        let Shape { slots, forwarding, depth_max } = shape;
        let prefetch = PrefetchConfig { depth_max, in_flight_max: 16384, read_max: 4096, demand_max: 2 };
        let cache = CacheConfig { slots: slots.max(1), entry_log2: 13, prefetch, ..CacheConfig::default() };
        let config = PagingConfig {
            workers: WORKERS,
            slots,
            cache,
            forwarding,
            static_max: 64 << 10,
            has_room: |_| true,
        };
        let woken: Arc<[AtomicBool; WORKERS]> = Arc::default();
        let wakes = Arc::clone(&woken);
        let wake = move |worker: usize| wakes[worker].store(true, Ordering::Relaxed);
        // Without some pages of memory there is nothing to simulate.
        let page = StatusPage::create(Role::Agent, "agent").expect("a page of memory");
        let shared = SharedPaging::new(config, Arc::clone(&boot.exports), &page, None, wake);
        let shared = Arc::new(shared.expect("some pages of memory"));
        let workers = (0..WORKERS).map(|index| PagingWorker::new(index, Arc::clone(&shared))).collect();
        Self { shared, workers, owners: BTreeMap::new(), next_owner: [0; 2], woken }
    }

    pub(super) fn pins(&self) -> u64 {
        self.shared.pins()
    }

    fn worker(&mut self, link: LinkId) -> Option<&mut PagingWorker> {
        let index = *self.owners.get(&link)?;
        self.workers.get_mut(index)
    }

    fn deliver(&mut self, now: Time) -> bool {
        let mut any = false;
        for (index, woken) in self.woken.iter().enumerate() {
            if woken.swap(false, Ordering::Relaxed) {
                self.workers[index].on_delivery(now);
                any = true;
            }
        }
        any
    }
}

impl Service for Agent {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: Origin, _: Time) {
        let is_server = peer.intro().role == Role::MemoryServer;
        let next = &mut self.next_owner[usize::from(is_server)];
        // Each worker has one link to the server: a new one goes to the worker that has none.
        let owner = match origin {
            Origin::Dialled(dial) => dial % WORKERS,
            Origin::Accepted => *next % WORKERS,
        };
        *next += 1;
        self.owners.insert(link, owner);
        self.workers[owner].on_open(link, peer, is_server);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.worker(link).map_or(Disposition::Taken, |worker| worker.on_frame(link, frame, now))
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        if let Some(worker) = self.worker(link) {
            worker.on_completion(link, &completion, now);
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let mut moved = self.deliver(now);
        if let Some(worker) = self.worker(id) {
            moved |= worker.send(id, link, now)?;
        }
        Ok(moved)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, now: Time) {
        if let Some(worker) = self.worker(link) {
            worker.on_lost(link, now);
        }
        self.owners.remove(&link);
    }

    fn next_deadline(&self) -> Option<Time> {
        let is_woken = self.woken.iter().any(|woken| woken.load(Ordering::Relaxed));
        let at_once = is_woken.then_some(Time::ZERO);
        self.workers.iter().filter_map(PagingWorker::next_deadline).chain(at_once).min()
    }

    fn on_time(&mut self, now: Time) {
        self.deliver(now);
        self.workers.iter_mut().for_each(|worker| worker.on_time(now));
    }
}
