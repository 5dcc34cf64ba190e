//! The regions of a memory server: who has them, under which name, and what is left.

mod clients;
mod files;
mod gate;
mod holders;
mod presence;
mod region;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use outboard_limits::show_bytes;
use outboard_limits::why_failed;
use outboard_link::Exports;
use outboard_link::memory::Segment;
use outboard_wire::control::{
    ControlAnswer, FILE_PREFIX, Failure, LIST_MAX, ListedRegion, Question, RegionName, Sharing,
};
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey, Rights, ServerId, Time};

use clients::Clients;
pub use clients::Parting;
pub(crate) use files::{LoadPlan, SyncPlan};
pub(crate) use gate::Entered;
pub use gate::Gate;
use gate::Keys;
use holders::{Change, Claim, Holders};
use region::{Kept, StoredRegion};

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
    used: u64,
    next_id: u64,
    regions: BTreeMap<RegionId, StoredRegion>,
    names: HashMap<String, RegionId>,
    files: HashMap<String, RegionId>,
    clients: Clients,
    now: Time,
}

impl RegionStore {
    /// An empty store that exports its regions through `exports`.
    pub fn new(config: StoreConfig, exports: Arc<Exports>) -> Self {
        Self {
            config,
            exports,
            used: 0,
            next_id: 1,
            regions: BTreeMap::new(),
            names: HashMap::new(),
            files: HashMap::new(),
            clients: Clients::new(config.linger),
            now: Time::ZERO,
        }
    }

    /// Bytes reserved.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes that all regions together may have.
    pub fn capacity(&self) -> u64 {
        self.config.capacity
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
                self.reserve(process, (*size, *chunk_log2), name, *sharing)
            }
            Question::OpenNamed { name, rights, sharing } => {
                self.open_named(process, name, (*rights, *sharing))
            }
            Question::Free { region, generation, key } => self.free(process, *region, *generation, key),
            Question::Release { region, generation } => self.release(process, *region, *generation),
            Question::List { after } => Ok(self.list(*after)),
            Question::Join { .. } => {
                Err((Failure::NotServed, "a memory server gathers no ranks; ask an agent".into()))
            }
            Question::Load { .. } | Question::Sync { .. } | Question::Populate { .. } => {
                Err((Failure::NotServed, "nothing that takes a while is done here".into()))
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
        sharing: Sharing,
    ) -> Answer {
        let name = name.as_str();
        if name.chars().any(char::is_control) {
            return Err((Failure::BadRequest, "a region's name has no control characters".into()));
        }
        if name.starts_with(FILE_PREFIX) {
            let detail =
                format!("“{name}” is kept for a file; choose a name that does not begin with {FILE_PREFIX}");
            return Err((Failure::BadRequest, detail));
        }
        if self.names.contains_key(name) {
            let detail = format!("a region named “{name}” exists; open it, or free it first");
            return Err((Failure::NameTaken, detail));
        }
        let (memory, footprint) = self.allocate(size)?;
        let kept = if name.is_empty() { Kept::WithClient } else { Kept::ByName(name.to_owned()) };
        let registered = self.register(process, memory, kept, (size, footprint, chunk_log2));
        let region = registered.inspect_err(|_| self.used -= footprint)?;
        self.open(process, region, (Rights::ALL, sharing))
    }

    /// Memory for `size` bytes, whole pages, counted against the capacity.
    fn allocate(&mut self, size: u64) -> Result<(Segment, u64), No> {
        if size == 0 {
            let detail = "a region of no bytes is of no use; ask for at least one";
            return Err((Failure::BadRequest, detail.into()));
        }
        if self.regions.len() >= self.config.regions_max {
            let detail = format!(
                "there are {} regions, as many as half of the server's descriptors or mappings; free some, or raise its limit \
                 with `ulimit -n` or LimitNOFILE=",
                self.regions.len()
            );
            return Err((Failure::NoCapacity, detail));
        }
        let page = rustix::param::page_size() as u64;
        let rounded = size.checked_next_multiple_of(page).filter(|size| *size <= i64::MAX as u64);
        let left = self.config.capacity - self.used;
        let footprint = rounded.filter(|size| *size <= left).ok_or_else(|| {
            let (capacity, used) = (self.config.capacity, self.used);
            let awaiting = match self.awaiting_bytes() {
                0 => String::new(),
                bytes => format!(" ({} by processes that may come back)", show_bytes(bytes)),
            };
            let [size, capacity, used, left] = [size, capacity, used, left].map(show_bytes);
            let detail = format!(
                "{size} asked, and of {capacity} are {used} in use{awaiting} and {left} left; free regions, or start the server \
                 with more --capacity"
            );
            (Failure::NoCapacity, detail)
        })?;
        let memory = Segment::create(c"outboard-region", footprint as usize).map_err(no_memory)?;
        self.used += footprint;
        Ok((memory, footprint))
    }

    /// That of all regions. Ids are never given twice, so that it tells no two regions of a server apart; but those of
    /// two servers, which both count from one, for who speaks of both on one link.
    fn generation(&self) -> Generation {
        let Incarnation(life) = self.config.incarnation;
        Generation(((life >> 32) as u32 ^ life as u32).max(1))
    }

    /// Makes a region of `memory`, which nobody has yet.
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
        match &kept {
            Kept::WithClient => None,
            Kept::ByName(name) => self.names.insert(name.clone(), region),
            Kept::ByFile(path) => self.files.insert(path.clone(), region),
        };
        let gate = Arc::new(Gate::new(self.generation(), keys, size, Arc::new(memory)));
        let owner = self.clients.is_here(process).then_some(process);
        let holders = Holders::default();
        let stored = StoredRegion { owner, holders, kept, chunk_log2, footprint, gate, is_syncing: false };
        self.exports.add(stored.export(region));
        self.regions.insert(region, stored);
        Ok(region)
    }

    /// Gives a region to `process`, unless others are in the way.
    fn open(
        &mut self,
        process: Incarnation,
        region: RegionId,
        (rights, sharing): (Rights, Sharing),
    ) -> Answer {
        if !self.clients.is_here(process) {
            return Err((Failure::BadRequest, "whoever asked has gone".into()));
        }
        let claim = Claim { writes: rights.includes(Rights::WRITE), sharing };
        self.nobody_in_the_way(region, process, claim)?;
        let stored = self.regions.get_mut(&region).ok_or_else(|| no_region(region))?;
        let overdue = stored.holders.in_the_way(process, claim);
        if !overdue.is_empty() {
            stored.take_from(&overdue).map_err(no_memory)?;
            self.exports.add(stored.export(region));
        }
        stored.apply(|holders| holders.take(process, claim));
        Ok(ControlAnswer::Region(stored.describe(&self.config, region, (rights, sharing))))
    }

    fn nobody_in_the_way(&self, region: RegionId, process: Incarnation, claim: Claim) -> Result<(), No> {
        let stored = self.regions.get(&region).ok_or_else(|| no_region(region))?;
        let mut others = stored.holders.in_the_way(process, claim);
        others.retain(|(other, _)| !self.clients.is_overdue(*other));
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
            Some(until) => {
                let seconds = until.since(self.now).as_secs() + 1;
                format!(", whose links are lost; if it is not back in {seconds} s you can have it")
            }
        };
        let detail = format!("{region} is in use for {doing} by {shown}{more}{what_to_do}");
        Err((Failure::InUse, detail))
    }

    fn open_named(&mut self, process: Incarnation, name: &RegionName, how: (Rights, Sharing)) -> Answer {
        let id = match name.as_str().strip_prefix(FILE_PREFIX) {
            Some(path) => self.files.get(path),
            None => self.names.get(name.as_str()),
        };
        let region = *id.ok_or_else(|| {
            (Failure::NoSuchRegion, format!("no region is named “{name}”; `outboard memory list` shows all"))
        })?;
        self.open(process, region, how)
    }

    /// The region, for whoever has a key to it that allows `rights`.
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
        let no = || (Failure::NoSuchRegion, format!("no {region} with this generation and key"));
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
        // Whoever shares with everybody is used to surprises; whoever leases is not.
        let claim = Claim { writes: true, sharing: Sharing::Together };
        self.nobody_in_the_way(region, process, claim)?;
        self.remove(region);
        Ok(ControlAnswer::Freed)
    }

    fn release(&mut self, process: Incarnation, region: RegionId, generation: Generation) -> Answer {
        let stored = self.regions.get_mut(&region).filter(|stored| stored.gate.generation == generation);
        let stored = stored.filter(|stored| stored.holders.has(process)).ok_or_else(|| {
            (Failure::NoSuchRegion, format!("your process has no {region} of this generation"))
        })?;
        stored.apply(|holders| holders.release(process).unwrap_or(Change::OfNoWriter));
        if !stored.holders.has(process) && stored.kept.is_with_client() {
            self.remove(region);
        }
        Ok(ControlAnswer::Released)
    }

    fn remove(&mut self, region: RegionId) {
        if let Some(stored) = self.regions.remove(&region) {
            self.exports.remove(region);
            self.used -= stored.footprint;
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

/// Why not, for programs and for people.
pub(crate) type No = (Failure, String);
type Answer = Result<ControlAnswer, No>;

/// The usual unit of movement, as a power of two: 64 KiB.
const CHUNK_LOG2: u8 = 16;

fn no_region(region: RegionId) -> No {
    (Failure::NoSuchRegion, format!("there is no {region}"))
}

fn no_memory(error: rustix::io::Errno) -> No {
    (Failure::NoCapacity, format!("no region: {}", why_failed("the memory server", error)))
}

#[cfg(test)]
mod tests;
