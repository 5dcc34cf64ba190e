//! What the workers of an agent share about far memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard_link::memory::Buffer;
use outboard_link::{Clock, Exports};
use outboard_paging::cache::{
    Attachment, CacheConfig, CacheSwitch, Ended, Forwarding, Meter, PageCache, Place, PrefetchConfig,
    RegionNumber, Shadow, Waiter,
};
use outboard_settings::{AgentPlan, AgentSettings, Forwarding as ForwardingSetting};
use outboard_steering::Config as SteeringConfig;
use outboard_wire::paging::CacheMode;
use outboard_wire::{Incarnation, Time};
use rustix::io::Errno;

use super::FETCH_MAX;
use super::numbers::{Numbers, RegionLine};
use super::statics::StaticRegion;
use crate::room::has_room;
use crate::status::StatusPage;

/// How many fetches of one worker can be under way that are not cached.
const BOUNCES: u32 = 128;

/// The settings of an agent's paging.
#[derive(Clone, Copy, Debug)]
pub struct PagingConfig {
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
    /// Whether so many bytes can be made present now.
    pub has_room: fn(u64) -> bool,
}

impl PagingConfig {
    /// Those that follow from an agent's settings.
    pub fn new(settings: &AgentSettings, plan: &AgentPlan) -> Self {
        let entry_log2 = settings.cache_entry.0.ilog2() as u8;
        let slots = u32::try_from(plan.cache >> entry_log2).unwrap_or(u32::MAX);
        let depth_max = settings.prefetch as u32;
        let prefetch = PrefetchConfig { depth_max, ..PrefetchConfig::default() };
        let cache = CacheConfig { slots: slots.max(1), entry_log2, prefetch, ..CacheConfig::default() };
        let forwarding = match settings.forwarding {
            ForwardingSetting::Serial => Forwarding::Serial,
            ForwardingSetting::Batched => Forwarding::Batched,
            ForwardingSetting::Pipelined => Forwarding::Pipelined,
        };
        let AgentPlan { workers, static_max, .. } = *plan;
        Self { workers, slots, cache, forwarding, static_max, has_room }
    }

    fn slot_bytes(&self) -> u64 {
        u64::from(self.slots) << self.cache.entry_log2
    }
}

/// What becomes of a region besides its entries in the cache.
pub(super) struct RegionState {
    pub(super) attachment: Attachment,
    /// The mode that was asked for last.
    pub(super) mode: CacheMode,
    pub(super) switch: Option<CacheSwitch>,
    pub(super) reviewed_at: Time,
    pub(super) copy: Option<StaticRegion>,
    /// How many attachments there are.
    pub(super) users: u32,
}

/// Everything that needs the lock.
pub(super) struct State {
    pub(super) cache: PageCache,
    pub(super) shadow: Shadow,
    pub(super) regions: BTreeMap<RegionNumber, RegionState>,
    /// Write-backs that servers have not acknowledged, by offset and length: a copy that is begun meanwhile must not
    /// read what they are about to replace.
    pub(super) writing: BTreeMap<RegionNumber, Vec<(u64, u32)>>,
    /// How fast each server's bytes come.
    pub(super) net: HashMap<Incarnation, Meter>,
    /// How fast bytes go to applications.
    pub(super) intra: Meter,
    pub(super) static_bytes: u64,
    pub(super) next_copy: u64,
}

/// News for a request of another worker.
pub(super) enum Delivery {
    /// What it waited for has come, or not.
    Ended(Ended),
    /// The static copy that an attachment waits for is complete.
    StaticReady(Waiter),
}

/// What the workers of an agent share about far memory. The lock is held for look-ups, never while bytes move.
pub struct SharedPaging {
    config: PagingConfig,
    state: Mutex<State>,
    /// The slots of the cache, then the bounces of each worker.
    memory: Buffer,
    pub(super) exports: Arc<Exports>,
    deliveries: Vec<Mutex<Vec<Delivery>>>,
    wake: Box<dyn Fn(usize) + Send + Sync>,
    /// Whether something is to be read ahead, for those who look without the lock.
    pub(super) has_plans: AtomicBool,
    /// How many static copies are being loaded, likewise.
    pub(super) copies_loading: AtomicUsize,
    clock: Option<Clock>,
    pub(super) numbers: Numbers,
}

impl SharedPaging {
    /// `wake` has a worker look for deliveries; without a clock, time is what each turn says.
    pub fn new(
        config: PagingConfig,
        exports: Arc<Exports>,
        page: &StatusPage,
        clock: Option<Clock>,
        wake: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Self, Errno> {
        let bounces = config.workers as u64 * u64::from(BOUNCES) * u64::from(FETCH_MAX);
        let bytes = usize::try_from(config.slot_bytes() + bounces).map_err(|_| Errno::NOMEM)?;
        let state = State {
            cache: PageCache::new(config.cache),
            shadow: Shadow::new(config.cache),
            regions: BTreeMap::new(),
            writing: BTreeMap::new(),
            net: HashMap::new(),
            intra: Meter::new(&SteeringConfig::default()),
            static_bytes: 0,
            next_copy: 1,
        };
        Ok(Self {
            config,
            state: Mutex::new(state),
            memory: Buffer::allocate(bytes)?,
            exports,
            deliveries: (0..config.workers).map(|_| Mutex::default()).collect(),
            wake: Box::new(wake),
            has_plans: AtomicBool::new(false),
            copies_loading: AtomicUsize::new(0),
            clock,
            numbers: Numbers::new(page, config.slot_bytes()),
        })
    }

    pub(super) fn config(&self) -> &PagingConfig {
        &self.config
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
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
        self.clock.map_or(now, |clock| clock.now())
    }

    /// Where a place of the cache lies in the memory.
    pub(super) fn at(&self, place: &Place) -> usize {
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
    pub(super) fn deliver(&self, waiter: Waiter, delivery: Delivery) {
        let worker = (waiter.0 >> 32) as usize;
        let Some(deliveries) = self.deliveries.get(worker) else { return };
        let mut deliveries = deliveries.lock().unwrap_or_else(PoisonError::into_inner);
        deliveries.push(delivery);
        let is_first = deliveries.len() == 1;
        drop(deliveries);
        if is_first {
            (self.wake)(worker);
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

    /// Shows the numbers, and a line about each region.
    pub(super) fn publish(&self, now: Time) {
        let state = self.state();
        let entry = state.cache.config().entry_bytes();
        self.numbers.show(state.cache.counters(), u64::from(state.cache.used_slots()) * entry);
        self.numbers.show_rates(state.net.values().find_map(Meter::bandwidth), state.intra.bandwidth());
        self.numbers.static_bytes.set(state.static_bytes);
        let lines: Vec<RegionLine> = state
            .cache
            .regions()
            .filter_map(|(number, name, size, sources)| {
                let region = state.regions.get(&number)?;
                let report = region.switch.as_ref().map(|switch| switch.report(now));
                let net = state.net.get(&name.server).and_then(Meter::bandwidth);
                let is_copied = region.copy.is_some();
                Some(RegionLine { name, size, mode: region.mode, is_copied, sources, report, net })
            })
            .collect();
        let intra = state.intra.bandwidth();
        drop(state);
        self.numbers.show_regions(&lines, intra);
    }

    pub(super) fn note_plans(&self, state: &State) {
        self.has_plans.store(state.cache.has_plans(), Ordering::Relaxed);
    }
}
