//! The state of far memory that the workers of an agent share, and the things that they are given from outside.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use outboard_contract::memory::Buffer;
use outboard_steering::SteeringConfig;
use outboard_wire::paging::CacheMode;
use outboard_wire::{Grant, Incarnation, RegionId, Time};

use super::cache::{
    CacheConfig, CacheSpan, CacheSwitch, EndedWait, Forwarding, PageCache, RegionAttachment, RegionNumber,
    ServerMeter, Shadow, WaiterId,
};
use super::report::{PagingReport, RegionReport, ReportCounts};
use super::statics::StaticRegion;

/// The longest fetch or write-back that is served, in bytes.
pub(super) const FETCH_MAX: u32 = 256 << 10;
/// How many fetches of one worker can be under way that are not cached.
const BOUNCES: u32 = 128;

/// The settings of an agent's paging.
#[derive(Clone, Copy, Debug)]
pub struct AgentPagingConfig {
    /// How many workers there are.
    pub workers: usize,
    /// How many entries the cache has; none means that there is no cache.
    pub slots: u32,
    /// The settings of the cache.
    pub cache: CacheConfig,
    /// How requests are passed on.
    pub forwarding: Forwarding,
    /// How many bytes static copies may have in all.
    pub static_max: u64,
}

impl AgentPagingConfig {
    /// How many bytes the cache has.
    pub fn slot_bytes(&self) -> u64 {
        u64::from(self.slots) << self.cache.entry_log2
    }

    /// How many bytes of memory the cache and the fetches that are not cached need; none if that is no number of bytes.
    pub fn memory_len(&self) -> Option<usize> {
        let bounces = self.workers as u64 * u64::from(BOUNCES) * u64::from(FETCH_MAX);
        usize::try_from(self.slot_bytes().checked_add(bounces)?).ok()
    }
}

/// The services of the process that an agent's paging runs in.
pub trait Surroundings: Send + Sync {
    /// The time right now, which may be later than that of the turn.
    fn time(&self, turn: Time) -> Time;

    /// Has a worker call [`on_delivery`](super::PagingWorker::on_delivery) soon.
    fn wake(&self, worker: usize);

    /// Memory for a static copy of `size` bytes, which others can open to read; none if there is not enough.
    fn lend(&self, copy: RegionId, size: u64) -> Option<Lent>;

    /// A static copy is used no more: no application can open it from now on.
    fn take_back(&self, copy: RegionId);
}

/// Memory for a static copy.
pub struct Lent {
    /// The grant that opens it to read.
    pub grant: Grant,
    /// The memory itself, of at least as many bytes as the grant says.
    pub memory: Buffer,
}

/// The state of a region besides its entries in the cache.
pub(super) struct RegionState {
    pub(super) attachment: RegionAttachment,
    /// The mode that was asked for last.
    pub(super) mode: CacheMode,
    pub(super) switch: Option<CacheSwitch>,
    pub(super) reviewed_at: Time,
    pub(super) copy: Option<StaticRegion>,
    /// How many attachments there are.
    pub(super) users: u32,
}

/// Everything that needs the lock.
pub(super) struct SharedState {
    pub(super) cache: PageCache,
    pub(super) shadow: Shadow,
    pub(super) regions: BTreeMap<RegionNumber, RegionState>,
    /// Write-backs that servers have not acknowledged, by offset and length: a copy that is begun meanwhile must not
    /// read what they are about to replace.
    pub(super) writing: BTreeMap<RegionNumber, Vec<(u64, u32)>>,
    /// How fast each server's bytes come.
    pub(super) net: HashMap<Incarnation, ServerMeter>,
    /// How fast bytes go to applications.
    pub(super) intra: ServerMeter,
    pub(super) static_bytes: u64,
    pub(super) next_copy: u64,
}

/// News for a request of another worker.
pub(super) enum Delivery {
    /// The awaited answer has come, or will not.
    Ended(EndedWait),
    /// The static copy that an attachment waits for is complete.
    StaticReady(WaiterId),
}

/// The state of far memory that the workers of an agent share. The lock is held for look-ups, never while bytes move.
pub struct SharedPaging {
    config: AgentPagingConfig,
    state: Mutex<SharedState>,
    /// The slots of the cache, then the bounces of each worker.
    memory: Buffer,
    pub(super) surroundings: Box<dyn Surroundings>,
    deliveries: Vec<Mutex<Vec<Delivery>>>,
    /// Whether something is to be read ahead, for those who look without the lock.
    pub(super) has_plans: AtomicBool,
    /// How many static copies are being loaded, likewise.
    pub(super) copies_loading: AtomicUsize,
    pub(super) counts: ReportCounts,
}

impl SharedPaging {
    /// `memory` has as many bytes as [`AgentPagingConfig::memory_len`] says.
    ///
    /// # Panics
    /// If `memory` has fewer.
    pub fn new(config: AgentPagingConfig, memory: Buffer, surroundings: impl Surroundings + 'static) -> Self {
        let is_enough = config.memory_len().is_some_and(|len| memory.len() >= len);
        assert!(is_enough, "{} bytes for {config:?}", memory.len());
        let state = SharedState {
            cache: PageCache::new(config.cache),
            shadow: Shadow::new(config.cache),
            regions: BTreeMap::new(),
            writing: BTreeMap::new(),
            net: HashMap::new(),
            intra: ServerMeter::new(&SteeringConfig::default()),
            static_bytes: 0,
            next_copy: 1,
        };
        Self {
            config,
            state: Mutex::new(state),
            memory,
            surroundings: Box::new(surroundings),
            deliveries: (0..config.workers).map(|_| Mutex::default()).collect(),
            has_plans: AtomicBool::new(false),
            copies_loading: AtomicUsize::new(0),
            counts: ReportCounts::default(),
        }
    }

    pub(super) fn config(&self) -> &AgentPagingConfig {
        &self.config
    }

    pub(super) fn state(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn memory(&self) -> &Buffer {
        &self.memory
    }

    /// Whether there is a cache at all.
    pub(super) fn has_cache(&self) -> bool {
        self.config.slots > 0
    }

    /// The time right now, which may be later than that of the turn.
    pub(super) fn time(&self, now: Time) -> Time {
        self.surroundings.time(now)
    }

    /// Where a place of the cache lies in the memory.
    pub(super) fn at(&self, place: &CacheSpan) -> usize {
        ((place.slot as usize) << self.config.cache.entry_log2) + place.offset as usize
    }

    /// The bounces of a worker.
    pub(super) fn bounces(&self, worker: usize) -> impl Iterator<Item = u32> + use<> {
        let first = worker as u32 * BOUNCES;
        (first..first + BOUNCES).rev()
    }

    /// Where a bounce lies in the memory.
    pub(super) fn bounce_at(&self, bounce: u32) -> usize {
        (self.config.slot_bytes() + u64::from(bounce) * u64::from(FETCH_MAX)) as usize
    }

    /// Tells the worker whose request this is.
    pub(super) fn deliver(&self, waiter: WaiterId, delivery: Delivery) {
        let worker = (waiter.0 >> 32) as usize;
        let Some(deliveries) = self.deliveries.get(worker) else { return };
        let mut deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.push(delivery);
        let is_first = deliveries.len() == 1;
        drop(deliveries);
        if is_first {
            self.surroundings.wake(worker);
        }
    }

    pub(super) fn take_deliveries(&self, worker: usize) -> Vec<Delivery> {
        let Some(deliveries) = self.deliveries.get(worker) else { return Vec::new() };
        std::mem::take(&mut *deliveries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A server has begun a new life: what is cached of the old one is of no use.
    pub(super) fn server_restarted(&self, before: Incarnation) {
        let mut state = self.state();
        let gone: Vec<RegionNumber> =
            state.cache.regions().filter(|(_, name, ..)| name.server == before).map(|it| it.0).collect();
        gone.into_iter().for_each(|region| state.cache.invalidate(region));
        state.net.remove(&before);
    }

    /// How many reasons there are to keep bytes where they are: none when nothing is under way.
    pub fn pins(&self) -> u64 {
        self.state().cache.pins()
    }

    /// The counts, and how each region fares.
    pub fn report(&self, now: Time) -> PagingReport {
        let state = self.state();
        let regions = state.cache.regions().filter_map(|(number, name, size, sources)| {
            let region = state.regions.get(&number)?;
            let switch = region.switch.as_ref().map(|switch| switch.report(now));
            let net = state.net.get(&name.server).and_then(ServerMeter::bandwidth);
            let is_copied = region.copy.is_some();
            Some(RegionReport { name, size, mode: region.mode, is_copied, sources, switch, net })
        });
        PagingReport {
            cache: *state.cache.counters(),
            used_bytes: u64::from(state.cache.used_slots()) * state.cache.config().entry_bytes(),
            static_bytes: state.static_bytes,
            read_bytes: self.counts.read_bytes.get(),
            write_backs: self.counts.write_backs.get(),
            write_back_frames: self.counts.write_back_frames.get(),
            net: state.net.values().find_map(ServerMeter::bandwidth),
            intra: state.intra.bandwidth(),
            regions: regions.collect(),
        }
    }

    pub(super) fn note_plans(&self, state: &SharedState) {
        self.has_plans.store(state.cache.has_plans(), Ordering::Relaxed);
    }
}
