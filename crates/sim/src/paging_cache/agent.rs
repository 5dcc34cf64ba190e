//! The agent: two of its workers, as they run in threads, taking turns in one node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::memory::{Buffer, Segment};
use outboard_link::{Completion, Disposition, Export, Exports, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::agent::cache::{CacheConfig, Forwarding, PrefetchConfig};
use outboard_paging::agent::{AgentPagingConfig, Lent, PagingWorker, STAGE_LEN, SharedPaging, Surroundings};
use outboard_wire::{Generation, Grant, Incarnation, RegionId, RegionKey, Rights, Role, Time};

use crate::Boot;

/// How many workers an agent has.
pub(crate) const WORKERS: usize = 2;

/// The choices that differ from one run to the next.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    slots: u32,
    forwarding: Forwarding,
    depth_max: u32,
}

impl Shape {
    pub(crate) fn draw(random: &mut Rng) -> Self {
        let forwarding = Forwarding::ALL[random.usize(..3)];
        Self { slots: random.u32(0..6), forwarding, depth_max: random.u32(0..3) }
    }
}

/// Virtual time, and copies that are exported from this node.
pub(crate) struct Process {
    pub(crate) exports: Arc<Exports>,
    pub(crate) woken: Arc<[AtomicBool; WORKERS]>,
    /// How many copies there are.
    pub(crate) lent: Arc<AtomicUsize>,
}

impl Surroundings for Process {
    fn time(&self, turn: Time) -> Time {
        turn
    }

    fn wake(&self, worker: usize) {
        self.woken[worker].store(true, Ordering::Relaxed);
    }

    fn lend(&self, region: RegionId, size: u64) -> Option<Lent> {
        let (generation, key, rights) = (Generation(1), RegionKey([region.0 as u8; 16]), Rights::READ);
        let memory = Segment::create(c"outboard-sim", (size as usize).next_multiple_of(4096)).ok()?;
        let (memory, keys) = (Arc::new(memory), vec![(key, rights)]);
        self.exports.add(Export { region, generation, memory: Arc::clone(&memory), keys });
        self.lent.fetch_add(1, Ordering::Relaxed);
        Some(Lent { grant: Grant { region, generation, key, rights, size }, memory: memory.into_buffer() })
    }

    fn take_back(&self, copy: RegionId) {
        self.exports.remove(copy);
        self.lent.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Two workers of an agent, which share its cache.
pub(crate) struct Agent {
    shared: Arc<SharedPaging>,
    workers: Vec<PagingWorker>,
    /// Which worker has a link.
    owners: BTreeMap<LinkId, usize>,
    next_owner: usize,
    woken: Arc<[AtomicBool; WORKERS]>,
    lent: Arc<AtomicUsize>,
    /// Which life of the server was seen last.
    server: Option<Incarnation>,
}

impl Agent {
    pub(crate) fn new(boot: &Boot, shape: Shape) -> Self {
        let Shape { slots, forwarding, depth_max } = shape;
        let prefetch = PrefetchConfig { depth_max, in_flight_max: 16384, read_max: 4096, demand_max: 2 };
        let cache = CacheConfig { slots: slots.max(1), entry_log2: 13, prefetch, ..CacheConfig::default() };
        let config = AgentPagingConfig { workers: WORKERS, slots, cache, forwarding, static_max: 100 << 10 };
        let (woken, lent) = (Arc::<[AtomicBool; WORKERS]>::default(), Arc::<AtomicUsize>::default());
        let process = Process {
            exports: Arc::clone(&boot.exports),
            woken: Arc::clone(&woken),
            lent: Arc::clone(&lent),
        };
        // Without some pages of memory there is nothing to simulate.
        let memory = config.memory_len().and_then(|len| Buffer::allocate(len).ok()).expect("some memory");
        let shared = Arc::new(SharedPaging::new(config, memory, process));
        let workers = (0..WORKERS).map(|index| PagingWorker::new(index, Arc::clone(&shared))).collect();
        Self { shared, workers, owners: BTreeMap::new(), next_owner: 0, woken, lent, server: None }
    }

    /// The things that it holds for applications, in words; none if it holds nothing.
    pub(super) fn holds(&self, now: Time) -> Option<String> {
        let (pins, lent) = (self.shared.pins(), self.lent.load(Ordering::Relaxed));
        let workers = self.workers.iter().map(PagingWorker::held).sum::<usize>();
        let report = self.shared.report(now);
        let held = (pins, lent, workers, report.regions.len(), report.static_bytes);
        (held != (0, 0, 0, 0, 0)).then(|| {
            format!(
                "{pins} pins, {lent} copies, {workers} things of its workers, {} regions, {} bytes of copies",
                report.regions.len(),
                report.static_bytes
            )
        })
    }

    fn worker(&mut self, link: LinkId) -> Option<&mut PagingWorker> {
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

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _: Time) {
        // Each worker has one link to the server: a new one goes to the worker that has none.
        let owner = match origin {
            LinkOrigin::Dialled(dial) => dial % WORKERS,
            LinkOrigin::Accepted => self.next_owner % WORKERS,
        };
        self.next_owner += 1;
        self.owners.insert(link, owner);
        if peer.intro().role == Role::MemoryServer {
            let before = self.server.replace(peer.incarnation());
            if let Some(before) = before.filter(|before| *before != peer.incarnation()) {
                self.workers[owner].server_restarted(before);
            }
            let stage = Buffer::allocate(STAGE_LEN).expect("some memory");
            self.workers[owner].on_server(link, peer, stage);
        }
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
        let mut moved = self.deliver();
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
        self.deliver();
        for worker in &mut self.workers {
            // No checker looks at the numbers.
            let _ = worker.on_time(now);
        }
    }
}
