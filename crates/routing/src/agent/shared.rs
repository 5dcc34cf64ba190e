//! What the workers of an agent share about messages.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outboard_contract::LinkId;
use outboard_contract::memory::Buffer;
use outboard_wire::routing::{Announcement, JobKey, RankAttachment};
use outboard_wire::{Grant, Rank, mutant};

use super::side::Parcel;
use super::{PackingConfig, RouteError, Routes};

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
    /// How much memory the parcels of all workers need.
    pub fn memory_bytes(&self) -> usize {
        self.workers * self.parcels as usize * self.stride()
    }

    /// How long the memory of a parcel is.
    pub(super) fn stride(&self) -> usize {
        self.parcel_bytes + SLACK
    }

    /// How long an idle parcel is looked after: how often numbers are shown.
    pub(super) const PERIOD: Duration = Duration::from_millis(20);
}

/// What a worker has counted since it last told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoutingCounts {
    /// Runs that were packed or handed on.
    pub runs: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Parcels for ranks of this node.
    pub parcels_to_ranks: u64,
    /// Their bytes.
    pub parcels_to_ranks_bytes: u64,
    /// Parcels for other agents.
    pub parcels_to_agents: u64,
    /// Their bytes.
    pub parcels_to_agents_bytes: u64,
    /// Runs that had to wait.
    pub blocked: u64,
    /// Runs for ranks that are not reached.
    pub unroutable: u64,
}

/// The daemon that a router is in.
pub trait RouterHost: Send + Sync {
    /// Has a worker call [`on_delivery`](super::RoutingWorker::on_delivery) soon.
    fn wake(&self, worker: usize);

    /// Something is wrong with a peer, as a person should read it. A hostile peer can have this said very often.
    fn warn(&self, text: &str);

    /// Messages of a rank are carried from now on.
    fn attached(&self, rank: Rank);

    /// Messages of a rank are not carried any more.
    fn detached(&self);

    /// A worker has counted this.
    fn count(&self, counts: RoutingCounts);
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
/// the table before: neither a change nor its size costs more than the ranks that links have told of, whatever their
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
    /// Made when a worker looks, so that many changes at once cost one table.
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

/// What the workers of an agent share about messages. Locked when a rank or agent comes or goes and when a parcel goes from one
/// worker to another, never for a message.
pub struct SharedRouting {
    config: RoutingConfig,
    memory: Buffer,
    grant: Grant,
    state: Mutex<State>,
    /// Which table there is, looked at without the lock in every turn.
    version: AtomicU64,
    errands: Vec<Mutex<Vec<Errand>>>,
    pub(super) host: Arc<dyn RouterHost>,
}

impl SharedRouting {
    /// `memory` has [`memory_bytes`](RoutingConfig::memory_bytes); ranks that present its grant can read it.
    pub fn new(config: RoutingConfig, (memory, grant): (Buffer, Grant), host: Arc<dyn RouterHost>) -> Self {
        let (routes, hops) = (Routes::new(config.relays), HashMap::new());
        Self {
            state: Mutex::new(State { routes, hops, table: Arc::default() }),
            memory,
            grant,
            version: AtomicU64::new(0),
            errands: (0..config.workers).map(|_| Mutex::default()).collect(),
            host,
            config,
        }
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
    pub(super) fn attach(&self, attachment: &RankAttachment, hop: Hop) -> Result<(), RouteError> {
        let RankAttachment { job, rank, ranks, .. } = *attachment;
        self.change(|state| {
            // Only the rank itself knows its job: it has come by another link, and the old one is of no use.
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

    /// A rank or agent is gone.
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
        // A worker that has been woken before takes all of it.
        if was_empty && !mutant("routing.errand-without-wake") {
            self.host.wake(worker);
        }
    }

    /// Takes what others have for a worker.
    pub(super) fn take_errands(&self, worker: usize) -> Vec<Errand> {
        std::mem::take(&mut *self.errands[worker].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
