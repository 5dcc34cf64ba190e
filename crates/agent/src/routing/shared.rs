//! What the workers of an agent share about messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outboard_driver::LinkId;
use outboard_link::memory::{Buffer, Segment};
use outboard_link::{Export, Exports};
use outboard_routing::{PackingConfig, RouteError, Routes};
use outboard_settings::AgentSettings;
use outboard_wire::routing::{Announcement, Attachment, JobKey};
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};
use rustix::io::Errno;

use super::numbers::Numbers;
use super::side::Parcel;
use crate::counts::Pace;
use crate::status::StatusPage;

/// The region in which ranks find the parcels that are for them.
const PARCELS: RegionId = RegionId(u64::MAX - 2);
/// By how much parcels may be longer than configured: the runs in them have heads.
const SLACK: usize = 1 << 10;
/// The settings of an agent's router.
#[derive(Clone, Copy, Debug)]
pub struct RoutingConfig {
    /// How many workers there are.
    pub workers: usize,
    /// How long parcels are, without the heads in them.
    pub parcel_bytes: usize,
    /// How many parcels each worker has.
    pub parcels: u32,
    /// How they are packed.
    pub packing: PackingConfig,
    /// Whether it carries what other agents send to each other.
    pub relays: bool,
}

impl RoutingConfig {
    /// Those that follow from an agent's settings.
    pub fn new(settings: &AgentSettings, workers: usize) -> Self {
        Self {
            workers,
            parcel_bytes: settings.parcel.0 as usize,
            parcels: settings.parcels as u32,
            packing: PackingConfig { hold: settings.hold, ..PackingConfig::default() },
            relays: settings.relay,
        }
    }

    /// How long the memory of a parcel is.
    pub(super) fn stride(&self) -> usize {
        self.parcel_bytes + SLACK
    }

    /// How long an idle parcel is looked after: how often numbers are shown.
    pub(super) const PERIOD: Duration = Duration::from_millis(20);
}

/// Whom a worker gives something to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) link: LinkId,
    /// The worker that has the link.
    pub(super) worker: usize,
    /// How long parcels for it may be.
    pub(super) capacity: u32,
    pub(super) is_rank: bool,
}

/// The next hop of every rank of every job that is reached. What has changed is made anew, and what has not is shared with
/// the table before: neither a change nor its size costs more than the ranks that somebody has told of, whatever their
/// numbers are.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) jobs: HashMap<JobKey, Arc<HashMap<u32, Hop>>>,
}

impl Table {
    fn set(&mut self, job: JobKey, rank: u32, hop: Option<Hop>) {
        let hops = Arc::make_mut(self.jobs.entry(job).or_default());
        match hop {
            Some(hop) => hops.insert(rank, hop),
            None => hops.remove(&rank),
        };
        if hops.is_empty() {
            self.jobs.remove(&job);
        }
    }
}

/// What one worker has for another.
#[derive(Debug)]
pub(super) enum Errand {
    /// Something to be said on a link.
    Announce(LinkId, Announcement),
    /// A parcel to be sent on a link.
    Send(LinkId, Parcel),
    /// A link whose rank has come by another one.
    Forget(LinkId),
    /// A parcel of yours: its buffer is not needed any more.
    Free(u32),
    /// A parcel of this packing has been taken.
    Taken(u64),
}

struct State {
    routes: Routes,
    hops: HashMap<u64, Hop>,
    /// Made when somebody looks, so that many changes at once cost one table.
    table: Arc<Table>,
}

impl State {
    fn table(&mut self) -> Arc<Table> {
        let changed = self.routes.take_changed();
        if !changed.is_empty() {
            let table = Arc::make_mut(&mut self.table);
            for (job, rank) in changed {
                let next = self.routes.next_hop(job, rank).and_then(|link| self.hops.get(&link));
                table.set(job, rank, next.copied());
            }
        }
        Arc::clone(&self.table)
    }
}

/// What the workers of an agent share about messages. Locked when somebody comes or goes and when a parcel goes from one
/// worker to another, never for a message.
pub struct SharedRouting {
    config: RoutingConfig,
    memory: Buffer,
    grant: Grant,
    state: Mutex<State>,
    /// Which table there is, looked at without the lock in every turn.
    version: AtomicU64,
    errands: Vec<Mutex<Vec<Errand>>>,
    wake: Box<dyn Fn(usize) + Send + Sync>,
    pub(super) numbers: Numbers,
    /// What is said of ranks and agents that are refused: they must not fill a disk.
    pub(super) warnings: Pace,
}

impl SharedRouting {
    /// `wake` has a worker look for errands.
    pub fn new(
        config: RoutingConfig,
        key: [u8; 16],
        exports: &Exports,
        page: &StatusPage,
        wake: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Self, Errno> {
        let bytes = config.workers * config.parcels as usize * config.stride();
        let memory = Arc::new(Segment::create(c"outboard-parcels", bytes)?);
        let keys = vec![(RegionKey(key), Rights::READ)];
        let generation = Generation(1);
        exports.add(Export { region: PARCELS, generation, memory: Arc::clone(&memory), keys });
        let grant = Grant {
            region: PARCELS,
            generation,
            key: RegionKey(key),
            rights: Rights::READ,
            size: memory.len() as u64,
        };
        let (routes, hops) = (Routes::new(config.relays), HashMap::new());
        Ok(Self {
            state: Mutex::new(State { routes, hops, table: Arc::default() }),
            memory: memory.into_buffer(),
            grant,
            version: AtomicU64::new(0),
            errands: (0..config.workers).map(|_| Mutex::default()).collect(),
            wake: Box::new(wake),
            numbers: Numbers::new(page),
            warnings: Pace::new(),
            config,
        })
    }

    pub(super) fn config(&self) -> &RoutingConfig {
        &self.config
    }

    pub(super) fn memory(&self) -> &Buffer {
        &self.memory
    }

    pub(super) fn grant(&self) -> Grant {
        self.grant
    }

    /// The buffers of a worker.
    pub(super) fn buffers(&self, worker: usize) -> std::ops::Range<u32> {
        let first = worker as u32 * self.config.parcels;
        first..first + self.config.parcels
    }

    /// Where a buffer begins.
    pub(super) fn offset(&self, buffer: u32) -> usize {
        buffer as usize * self.config.stride()
    }

    /// Which table there is.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn table(&self) -> Arc<Table> {
        self.lock().table()
    }

    /// A rank wants its messages to be carried.
    pub(super) fn attach(&self, attachment: &Attachment, hop: Hop) -> Result<(), RouteError> {
        let Attachment { job, rank, ranks, .. } = *attachment;
        self.change(|state| {
            // Nobody but the rank itself knows its job: it has come by another link, and the old one is of no use.
            if let Some(old) = state.routes.link_of(job, rank).filter(|old| *old != hop.link.0) {
                state.routes.on_lost(old);
                if let Some(old) = state.hops.remove(&old) {
                    self.post(old.worker, vec![Errand::Forget(old.link)]);
                }
            }
            state.routes.on_attach(job, rank, ranks, hop.link.0)?;
            state.hops.insert(hop.link.0, hop);
            Ok(())
        })
    }

    /// Another agent is there.
    pub(super) fn meet(&self, hop: Hop) {
        self.change(|state| {
            state.hops.insert(hop.link.0, hop);
            state.routes.on_agent(hop.link.0);
        });
    }

    /// An agent has told whom it reaches.
    pub(super) fn hear(&self, link: LinkId, announcement: &Announcement) {
        self.change(|state| state.routes.on_announcement(link.0, announcement));
    }

    /// Somebody is gone.
    pub(super) fn lose(&self, link: LinkId) {
        self.change(|state| {
            state.routes.on_lost(link.0);
            state.hops.remove(&link.0);
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes who is reached by whom, and has everybody told. What is told is in the order of the changes: it is
    /// queued under the lock.
    fn change<R>(&self, edit: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let result = edit(&mut state);
        let State { routes, hops, .. } = &mut *state;
        self.version.fetch_add(1, Ordering::Release);
        while let Some((link, announcement)) = routes.poll_action() {
            if let Some(hop) = hops.get(&link) {
                self.post(hop.worker, vec![Errand::Announce(hop.link, announcement)]);
            }
        }
        result
    }

    /// Gives another worker something to do.
    pub(super) fn post(&self, worker: usize, errands: Vec<Errand>) {
        let Some(queue) = self.errands.get(worker) else { return };
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = queue.is_empty();
        queue.extend(errands);
        drop(queue);
        // Whoever has been woken before takes all of it.
        if was_empty {
            (self.wake)(worker);
        }
    }

    /// Takes what others have for a worker.
    pub(super) fn take_errands(&self, worker: usize) -> Vec<Errand> {
        std::mem::take(&mut *self.errands[worker].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
