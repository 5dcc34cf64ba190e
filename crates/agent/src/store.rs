//! The regions of a memory server: who has them, under which name, and what is left.

mod capacity;
mod clients;
mod files;
mod gate;
mod holders;
mod keeping;
mod presence;
mod region;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use outboard_keep::JournalRecord;
use outboard_limits::show_bytes;
use outboard_limits::why_failed;
use outboard_link::Exports;
use outboard_link::memory::Segment;
use outboard_wire::control::{
    ControlAnswer, ControlFailure, FILE_PREFIX, LIST_MAX, ListedRegion, Question, RegionName, RegionSharing,
};
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey, Rights, ServerId, Time, mutant};

pub(crate) use capacity::Capacity;
use capacity::WrittenParts;
use clients::Clients;
pub use clients::Parting;
pub(crate) use clients::is_on_this_machine;
pub(crate) use files::{LoadPlan, SyncPlan};
pub(crate) use gate::Entered;
pub use gate::Gate;
use gate::Keys;
use holders::{Change, Claim, Holders};
use region::{Kept, StoredRegion};

use crate::keep::Keep;

/// What a store needs to know.
#[derive(Clone, Copy, Debug)]
pub struct StoreConfig {
    /// Which server this is.
    pub server: ServerId,
    /// Which life of it.
    pub incarnation: Incarnation,
    /// How many bytes all regions together may have.
    pub capacity: u64,
    /// How many regions there may be; each is a descriptor of the server's.
    pub regions_max: usize,
    /// How long a process whose links were lost is waited for.
    pub linger: Duration,
}

/// The regions of a memory server. Decides and keeps count; the links do the moving.
pub struct RegionStore {
    config: StoreConfig,
    exports: Arc<Exports>,
    capacity: Arc<Capacity>,
    next_id: u64,
    regions: BTreeMap<RegionId, StoredRegion>,
    names: HashMap<String, RegionId>,
    files: HashMap<String, RegionId>,
    clients: Clients,
    now: Time,
    /// Where named regions are kept over restarts of the server, if they are.
    keep: Option<Arc<Keep>>,
    /// Whether the server is ending, and what it has stays as it is for its next start.
    is_resting: bool,
}

impl RegionStore {
    /// An empty store that exports its regions through `exports`.
    pub fn new(config: StoreConfig, exports: Arc<Exports>) -> Self {
        Self {
            config,
            exports,
            capacity: Capacity::new(config.capacity),
            next_id: 1,
            regions: BTreeMap::new(),
            names: HashMap::new(),
            files: HashMap::new(),
            clients: Clients::new(config.linger),
            now: Time::ZERO,
            keep: None,
            is_resting: false,
        }
    }

    /// Bytes reserved, of sparse regions those that were written.
    pub fn used(&self) -> u64 {
        self.capacity.used()
    }

    /// Bytes that all regions together may have.
    pub fn capacity(&self) -> u64 {
        self.capacity.most()
    }

    /// What all regions take of the capacity, for those who want to know without asking the store.
    pub(crate) fn shared_capacity(&self) -> Arc<Capacity> {
        Arc::clone(&self.capacity)
    }

    /// How many regions there are.
    pub fn count(&self) -> usize {
        self.regions.len()
    }

    /// Answers a process that has a link.
    pub fn answer(&mut self, now: Time, process: Incarnation, question: &Question) -> ControlAnswer {
        self.on_time(now);
        let answer = match question {
            Question::Reserve { size, chunk_log2, name, sharing } => {
                self.reserve(process, (*size, *chunk_log2), name, (*sharing, Counted::Whole))
            }
            Question::ReserveSparse { size, chunk_log2, name, sharing } => {
                self.reserve(process, (*size, *chunk_log2), name, (*sharing, Counted::AsWritten))
            }
            Question::OpenNamed { name, rights, sharing } => {
                self.open_named(process, name, (*rights, *sharing))
            }
            Question::Free { region, generation, key } => self.free(process, *region, *generation, key),
            Question::Release { region, generation } => self.release(process, *region, *generation),
            Question::NextWritten { region, generation, key, offset } => {
                self.next_written((*region, *generation, key), *offset)
            }
            Question::List { after } => Ok(self.list(*after)),
            Question::Join { .. } => {
                Err((ControlFailure::NotServed, "a memory server gathers no ranks; ask an agent".into()))
            }
            Question::Load { .. } | Question::Sync { .. } | Question::Populate { .. } => {
                Err((ControlFailure::NotServed, "nothing that takes a while is done here".into()))
            }
        };
        answer.unwrap_or_else(files::no)
    }

    /// What those who bring written bytes to a region need.
    pub fn gate(&self, region: RegionId) -> Option<&Arc<Gate>> {
        self.regions.get(&region).map(|stored| &stored.gate)
    }

    fn reserve(
        &mut self,
        process: Incarnation,
        (size, chunk_log2): (u64, u8),
        name: &RegionName,
        (sharing, counted): (RegionSharing, Counted),
    ) -> Answer {
        let name = name.as_str();
        if name.chars().any(char::is_control) {
            return Err((ControlFailure::BadRequest, "a region's name has no control characters".into()));
        }
        if name.starts_with(FILE_PREFIX) {
            let detail =
                format!("“{name}” is kept for a file; choose a name that does not begin with {FILE_PREFIX}");
            return Err((ControlFailure::BadRequest, detail));
        }
        if self.names.contains_key(name) {
            let detail = format!("a region named “{name}” exists; open it, or free it first");
            return Err((ControlFailure::NameTaken, detail));
        }
        let (memory, footprint) = self.allocate(size, (counted, !name.is_empty()))?;
        let kept = if name.is_empty() { Kept::WithClient } else { Kept::ByName(name.to_owned()) };
        let number = RegionId(self.next_id);
        let registered = self.register(process, memory, kept, (size, footprint, chunk_log2));
        let region = registered.inspect_err(|_| {
            self.capacity.give_back(footprint);
            self.keep.iter().filter(|_| !name.is_empty()).for_each(|keep| keep.remove(number));
        })?;
        self.open(process, region, (Rights::ALL, sharing))
    }

    /// Memory for `size` bytes, whole pages, and how much of the capacity it takes from the start.
    fn allocate(&mut self, size: u64, (counted, outlives): (Counted, bool)) -> Result<(Segment, u64), No> {
        if size == 0 {
            let detail = "a region of no bytes is of no use; ask for at least one";
            return Err((ControlFailure::BadRequest, detail.into()));
        }
        if self.regions.len() >= self.config.regions_max {
            let detail = format!(
                "there are {} regions, as many as half of the server's descriptors or mappings; free some, or raise its limit \
                 with `ulimit -n` or LimitNOFILE=",
                self.regions.len()
            );
            return Err((ControlFailure::NoCapacity, detail));
        }
        let page = rustix::param::page_size() as u64;
        let rounded = size.checked_next_multiple_of(page).filter(|size| *size <= i64::MAX as u64);
        self.look_at_sparse();
        let left = self.capacity.left();
        // A sparse region needs room for something.
        let asked = |size: u64| if counted == Counted::Whole { size } else { size.min(page) };
        let whole = rounded.filter(|size| asked(*size) <= left).ok_or_else(|| {
            let (capacity, used) = (self.capacity.most(), self.used());
            let awaiting = match self.awaiting_bytes() {
                0 => String::new(),
                bytes => format!(" ({} by processes that may come back)", show_bytes(bytes)),
            };
            let [size, capacity, used, left] = [size, capacity, used, left].map(show_bytes);
            let detail = format!(
                "{size} asked, and of {capacity} are {used} in use{awaiting} and {left} left; free regions, or start the server \
                 with more --capacity"
            );
            (ControlFailure::NoCapacity, detail)
        })?;
        let keep = self.keep.as_ref().filter(|_| outlives);
        let memory = match keep {
            Some(keep) => keep.create(RegionId(self.next_id), whole, counted == Counted::AsWritten)?,
            None => Segment::create(c"outboard-region", whole as usize).map_err(no_memory)?,
        };
        let footprint = if counted == Counted::Whole { whole } else { 0 };
        if !self.capacity.take(footprint) {
            keep.iter().for_each(|keep| keep.remove(RegionId(self.next_id)));
            let detail = "what was left has been taken meanwhile; ask again, or free regions";
            return Err((ControlFailure::NoCapacity, detail.into()));
        }
        Ok((memory, footprint))
    }

    /// Counts what processes that have sparse regions mapped have written there.
    fn look_at_sparse(&self) {
        self.regions.values().for_each(|stored| stored.gate.look());
    }

    /// That of all regions. Ids are never given twice, so that it tells no two regions of a server apart; but those of
    /// two servers, which both count from one, for who speaks of both on one link.
    fn generation(&self) -> Generation {
        let Incarnation(life) = self.config.incarnation;
        Generation(((life >> 32) as u32 ^ life as u32).max(1))
    }

    /// Makes a region of `memory`, which no process has yet.
    fn register(
        &mut self,
        process: Incarnation,
        memory: Segment,
        kept: Kept,
        (size, footprint, chunk_log2): (u64, u64, u8),
    ) -> Result<RegionId, No> {
        let keys = Keys::draw().map_err(no_memory)?;
        let region = RegionId(self.next_id);
        self.next_id += 1;
        let parts = || WrittenParts::new(&self.capacity, memory.len() as u64, chunk_log2);
        let written = (footprint == 0).then(|| Arc::new(parts()));
        let keep = self.keep.clone().filter(|_| memory.is_file());
        let memory = Arc::new(memory);
        keep.iter().for_each(|keep| keep.watch(region, &memory));
        let gate = Gate::new(self.generation(), keys, size, (memory, written));
        let gate = Arc::new(gate.kept_in(keep.as_ref(), region));
        let owner = self.clients.is_here(process).then_some(process);
        let (holders, is_syncing) = (Holders::default(), false);
        let stored = StoredRegion { owner, holders, kept, chunk_log2, footprint, gate, is_syncing, keep };
        stored.note_all(region)?;
        self.add(region, stored);
        Ok(region)
    }

    /// Lets processes find and open a region.
    fn add(&mut self, region: RegionId, stored: StoredRegion) {
        match &stored.kept {
            Kept::WithClient => None,
            Kept::ByName(name) => self.names.insert(name.clone(), region),
            Kept::ByFile(path) => self.files.insert(path.clone(), region),
        };
        self.exports.add(stored.export(region));
        self.regions.insert(region, stored);
    }

    /// Gives a region to `process`, unless others are in the way.
    fn open(
        &mut self,
        process: Incarnation,
        region: RegionId,
        (rights, sharing): (Rights, RegionSharing),
    ) -> Answer {
        if !self.clients.is_here(process) {
            return Err((ControlFailure::BadRequest, "the process that asked has gone".into()));
        }
        let claim = Claim { writes: rights.includes(Rights::WRITE), sharing };
        self.forget_the_dead();
        self.no_process_in_the_way(region, process, claim)?;
        let seen = self.clients.seen(process);
        let stored = self.regions.get_mut(&region).ok_or_else(|| no_region(region))?;
        let overdue = stored.holders.in_the_way(process, claim);
        if !overdue.is_empty() {
            stored.take_from(&overdue).map_err(no_memory)?;
            self.exports.add(stored.export(region));
            stored.note_all(region)?;
        }
        stored.apply(|holders| holders.take(process, claim));
        stored.holders.saw(process, seen);
        if let Err(error) = stored.note_holders(region) {
            stored.apply(|holders| holders.release(process).unwrap_or(Change::OfNoWriter));
            return Err(error);
        }
        Ok(ControlAnswer::Region(stored.describe(&self.config, region, (rights, sharing))))
    }

    fn no_process_in_the_way(&self, region: RegionId, process: Incarnation, claim: Claim) -> Result<(), No> {
        let stored = self.regions.get(&region).ok_or_else(|| no_region(region))?;
        let mut others = stored.holders.in_the_way(process, claim);
        others.retain(|(other, _)| {
            // One that lives and has mapped the region may still store to it, however late.
            !self.clients.is_overdue(*other)
                || self.lives_with_mappings(*other)
                || mutant("agent.late-one-in-the-way")
        });
        // Best named is one that can be asked to release it, then the one that is waited for longest.
        let rank = |(other, _): &&(Incarnation, Claim)| {
            Reverse(self.clients.awaited_until(*other).unwrap_or(Time::MAX))
        };
        let Some((first, has)) = others.iter().min_by_key(rank) else { return Ok(()) };
        let shown = self.clients.shown(*first);
        let doing = if has.writes { "writing" } else { "reading" };
        let more = match others.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let what_to_do = match self.clients.awaited_until(*first) {
            None => "; wait until it is released, or end that process".to_owned(),
            Some(_) if self.lives_with_mappings(*first) => {
                ", and which lives and may still write to it; end that process".to_owned()
            }
            Some(until) => {
                let seconds = until.since(self.now).as_secs() + 1;
                format!(", whose links are lost; if it is not back in {seconds} s you can have it")
            }
        };
        let detail = format!("{region} is in use for {doing} by {shown}{more}{what_to_do}");
        Err((ControlFailure::InUse, detail))
    }

    fn open_named(
        &mut self,
        process: Incarnation,
        name: &RegionName,
        how: (Rights, RegionSharing),
    ) -> Answer {
        let id = match name.as_str().strip_prefix(FILE_PREFIX) {
            Some(path) => self.files.get(path),
            None => self.names.get(name.as_str()),
        };
        let region = *id.ok_or_else(|| {
            (
                ControlFailure::NoSuchRegion,
                format!("no region is named “{name}”; `outboard memory list` shows all"),
            )
        })?;
        self.open(process, region, how)
    }

    /// The region, for the holder of a key to it that allows `rights`.
    fn with_key(
        &mut self,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
        rights: Rights,
    ) -> Result<&mut StoredRegion, No> {
        let stored = self.regions.get_mut(&region).filter(|stored| stored.gate.generation == generation);
        let allows = |stored: &&mut StoredRegion| {
            stored.gate.keys.rights_of(key).is_some_and(|held| held.includes(rights))
        };
        let no = || (ControlFailure::NoSuchRegion, format!("no {region} with this generation and key"));
        stored.filter(allows).ok_or_else(no)
    }

    fn free(
        &mut self,
        process: Incarnation,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
    ) -> Answer {
        self.with_key(region, generation, key, Rights::ALL)?;
        // A process that shares with all others is used to surprises; one that leases is not.
        let claim = Claim { writes: true, sharing: RegionSharing::Together };
        self.forget_the_dead();
        self.no_process_in_the_way(region, process, claim)?;
        if let Some(keep) = self.regions.get(&region).and_then(|stored| stored.keep.as_ref()) {
            keep.note(&JournalRecord::Freed { region })?;
        }
        self.remove(region);
        Ok(ControlAnswer::Freed)
    }

    fn release(&mut self, process: Incarnation, region: RegionId, generation: Generation) -> Answer {
        let stored = self.regions.get_mut(&region).filter(|stored| stored.gate.generation == generation);
        let stored = stored.filter(|stored| stored.holders.has(process)).ok_or_else(|| {
            (ControlFailure::NoSuchRegion, format!("your process has no {region} of this generation"))
        })?;
        stored.apply(|holders| holders.release(process).unwrap_or(Change::OfNoWriter));
        stored.note_holders(region)?;
        if !stored.holders.has(process) && stored.kept.is_with_client() {
            self.remove(region);
        }
        Ok(ControlAnswer::Released)
    }

    fn remove(&mut self, region: RegionId) {
        if let Some(stored) = self.regions.remove(&region) {
            self.exports.remove(region);
            stored.keep.iter().for_each(|keep| keep.remove(region));
            self.capacity.give_back(if mutant("agent.freed-bytes-still-used") {
                0
            } else {
                stored.footprint
            });
            match &stored.kept {
                Kept::WithClient => None,
                Kept::ByName(name) => self.names.remove(name),
                Kept::ByFile(path) => self.files.remove(path),
            };
        }
    }

    fn list(&self, after: RegionId) -> ControlAnswer {
        let beyond = RegionId(after.0.saturating_add(1))..;
        let mut following = self.regions.range(beyond).map(|(region, stored)| ListedRegion {
            region: *region,
            generation: stored.gate.generation,
            size: stored.gate.size,
            owner_pid: stored.owner.map_or(0, |owner| self.clients.pid(owner)),
            name: stored.kept.shown(),
        });
        let regions = following.by_ref().take(LIST_MAX).collect();
        ControlAnswer::Regions { regions, more: following.next().is_some() }
    }
}

/// What of a region is counted against the capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// All of it, from the start.
    Whole,
    /// What was written.
    AsWritten,
}

/// Why not, for programs and for people.
pub(crate) type No = (ControlFailure, String);
type Answer = Result<ControlAnswer, No>;

/// The usual unit of movement, as a power of two: 64 KiB.
const CHUNK_LOG2: u8 = 16;

fn no_region(region: RegionId) -> No {
    (ControlFailure::NoSuchRegion, format!("there is no {region}"))
}

fn no_memory(error: rustix::io::Errno) -> No {
    (ControlFailure::NoCapacity, format!("no region: {}", why_failed("the memory server", error)))
}

#[cfg(test)]
mod tests;
