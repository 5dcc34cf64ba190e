//! The regions of a memory server: who reserved them, under which name, and what is left.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outboard_link::memory::Segment;
use outboard_link::{Export, Exports};
use outboard_wire::control::{
    ControlAnswer, FILE_PREFIX, Failure, LIST_MAX, ListedRegion, Question, RegionName,
};
use outboard_wire::{
    Extent, ExtentRole, Generation, Grant, Incarnation, RegionDescriptor, RegionId, RegionKey, Rights,
    ServerId,
};

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
}

/// A client of the store, by whatever number its owner tells clients apart.
type Client = u64;

struct StoredRegion {
    /// Who reserved it; none once a kept region has outlived its client.
    owner: Option<Owner>,
    kept: Kept,
    chunk_log2: u8,
    /// What its users may use.
    size: u64,
    /// What it takes of the capacity.
    footprint: u64,
    keys: Keys,
}

/// How long a region is kept.
enum Kept {
    /// As long as its client lives.
    WithClient,
    /// Until it is freed; others find it by this name.
    ByName(String),
    /// Until it is freed; others find it by the file it was loaded from.
    ByFile(String),
}

/// Memory for a file that is being read. It counts against the capacity until it is given to
/// [`RegionStore::finish_load`].
pub(crate) struct LoadPlan {
    path: String,
    size: u64,
    footprint: u64,
    memory: Segment,
}

impl LoadPlan {
    /// Where the bytes go.
    pub(crate) fn memory(&self) -> &Segment {
        &self.memory
    }

    /// How many there are.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

#[derive(Clone, Copy)]
struct Owner {
    client: Client,
    pid: u32,
}

struct Keys {
    full: RegionKey,
    read: RegionKey,
}

/// Every region's id is given out once, so all are in their first life.
const GENERATION: Generation = Generation(1);

/// The regions of a memory server. Decides and keeps count; the links do the moving.
pub struct RegionStore {
    config: StoreConfig,
    exports: Arc<Exports>,
    used: u64,
    next_id: u64,
    regions: BTreeMap<RegionId, StoredRegion>,
    names: HashMap<String, RegionId>,
    files: HashMap<String, RegionId>,
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

    /// Answers `client`, a process with id `pid`.
    pub fn answer(&mut self, client: u64, pid: u32, question: &Question) -> ControlAnswer {
        let answer = match question {
            Question::Reserve { size, chunk_log2, name } => {
                self.reserve(Owner { client, pid }, *size, *chunk_log2, name)
            }
            Question::OpenNamed { name, rights } => self.open_named(name, *rights),
            Question::Free { region, generation, key } => self.free(*region, *generation, key),
            Question::List { after } => Ok(self.list(*after)),
            Question::Join { .. } => {
                Err((Failure::NotServed, "a memory server gathers no ranks; ask an agent".into()))
            }
            // The files themselves are not this machine's business.
            Question::Load { .. } => Err((Failure::NotServed, "no files are loaded here".into())),
        };
        answer.unwrap_or_else(|(failure, detail)| ControlAnswer::failed(failure, &detail))
    }

    fn reserve(&mut self, owner: Owner, size: u64, chunk_log2: u8, name: &RegionName) -> Answer {
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
        self.register(owner, memory, kept, (footprint, footprint, chunk_log2)).inspect_err(|_| {
            self.used -= footprint;
        })
    }

    /// Memory for `size` bytes, whole pages, counted against the capacity.
    fn allocate(&mut self, size: u64) -> Result<(Segment, u64), No> {
        if size == 0 {
            let detail = "a region of no bytes is of no use; ask for at least one";
            return Err((Failure::BadRequest, detail.into()));
        }
        if self.regions.len() >= self.config.regions_max {
            let detail =
                format!("there are {} regions, and no more descriptors; free some", self.regions.len());
            return Err((Failure::NoCapacity, detail));
        }
        let page = rustix::param::page_size() as u64;
        let rounded = size.checked_next_multiple_of(page).filter(|size| *size <= i64::MAX as u64);
        let left = self.config.capacity - self.used;
        let footprint = rounded.filter(|size| *size <= left).ok_or_else(|| {
            let capacity = self.config.capacity;
            let detail = format!(
                "{size} bytes asked, {left} of {capacity} left; free regions or start the server with more --capacity"
            );
            (Failure::NoCapacity, detail)
        })?;
        let memory = Segment::create(c"outboard-region", footprint as usize).map_err(no_memory)?;
        self.used += footprint;
        Ok((memory, footprint))
    }

    fn register(
        &mut self,
        owner: Owner,
        memory: Segment,
        kept: Kept,
        (size, footprint, chunk_log2): (u64, u64, u8),
    ) -> Answer {
        let keys = Keys { full: draw_key().map_err(no_memory)?, read: draw_key().map_err(no_memory)? };
        let region = RegionId(self.next_id);
        self.next_id += 1;
        self.exports.add(Export {
            region,
            generation: GENERATION,
            memory: Arc::new(memory),
            keys: vec![(keys.full, Rights::ALL), (keys.read, Rights::READ)],
        });
        match &kept {
            Kept::WithClient => None,
            Kept::ByName(name) => self.names.insert(name.clone(), region),
            Kept::ByFile(path) => self.files.insert(path.clone(), region),
        };
        let stored = StoredRegion { owner: Some(owner), kept, chunk_log2, size, footprint, keys };
        let answer = ControlAnswer::Region(self.describe(region, &stored, Rights::ALL));
        self.regions.insert(region, stored);
        Ok(answer)
    }

    /// The region that a file was loaded into, if it was.
    pub(crate) fn loaded(&self, path: &str, rights: Rights) -> Option<ControlAnswer> {
        let region = self.files.get(path)?;
        let stored = self.regions.get(region)?;
        Some(ControlAnswer::Region(self.describe(*region, stored, rights)))
    }

    /// Makes room for a file of `size` bytes.
    pub(crate) fn begin_load(&mut self, path: &str, size: u64) -> Result<LoadPlan, No> {
        let (memory, footprint) = self.allocate(size)?;
        Ok(LoadPlan { path: path.to_owned(), size, footprint, memory })
    }

    /// Makes a region of a file that was read, or gives its room back if that failed. Whoever was second to load
    /// the same file gets the first one's region.
    pub(crate) fn finish_load(
        &mut self,
        (client, pid): (u64, u32),
        plan: LoadPlan,
        rights: Rights,
        read: std::io::Result<()>,
    ) -> ControlAnswer {
        let LoadPlan { path, size, footprint, memory } = plan;
        let result = match (read, self.loaded(&path, rights)) {
            (Err(error), _) => Err((Failure::NoSuchFile, format!("“{path}” could not be read: {error}"))),
            (Ok(()), Some(first)) => {
                self.used -= footprint;
                return first;
            }
            (Ok(()), None) => {
                let kept = Kept::ByFile(path.clone());
                self.register(Owner { client, pid }, memory, kept, (size, footprint, CHUNK_LOG2))
            }
        };
        match result {
            Ok(_) => self.loaded(&path, rights).unwrap_or_else(|| {
                ControlAnswer::failed(Failure::NoSuchRegion, "the region was freed meanwhile")
            }),
            Err((failure, detail)) => {
                self.used -= footprint;
                ControlAnswer::failed(failure, &detail)
            }
        }
    }

    fn describe(&self, region: RegionId, stored: &StoredRegion, rights: Rights) -> RegionDescriptor {
        let (key, rights) = if Rights::READ.includes(rights) {
            (stored.keys.read, Rights::READ)
        } else {
            (stored.keys.full, Rights::ALL)
        };
        let extent = Extent {
            server: self.config.server,
            incarnation: self.config.incarnation,
            offset: 0,
            length: stored.size,
            role: ExtentRole::Primary,
        };
        RegionDescriptor {
            grant: Grant { region, generation: GENERATION, key, rights, size: stored.size },
            chunk_log2: stored.chunk_log2,
            extents: vec![extent],
        }
    }

    fn open_named(&self, name: &RegionName, rights: Rights) -> Answer {
        let id = match name.as_str().strip_prefix(FILE_PREFIX) {
            Some(path) => self.files.get(path),
            None => self.names.get(name.as_str()),
        };
        let found = id.and_then(|id| Some((*id, self.regions.get(id)?)));
        let (region, stored) = found.ok_or_else(|| {
            (Failure::NoSuchRegion, format!("no region is named “{name}”; `outboard memory list` shows all"))
        })?;
        Ok(ControlAnswer::Region(self.describe(region, stored, rights)))
    }

    fn free(&mut self, region: RegionId, generation: Generation, key: &RegionKey) -> Answer {
        let holds_key = |stored: &&StoredRegion| stored.keys.full.matches(key) && generation == GENERATION;
        if self.regions.get(&region).filter(holds_key).is_none() {
            return Err((Failure::NoSuchRegion, format!("no {region} with this generation and key")));
        }
        self.release(region);
        Ok(ControlAnswer::Freed)
    }

    fn release(&mut self, region: RegionId) {
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
            generation: GENERATION,
            size: stored.size,
            owner_pid: stored.owner.map_or(0, |owner| owner.pid),
            name: stored.kept.shown(),
        });
        let regions = following.by_ref().take(LIST_MAX).collect();
        ControlAnswer::Regions { regions, more: following.next().is_some() }
    }

    /// A client has gone: its regions go too, except those that others find by name or file. Returns how many bytes came free.
    pub fn client_gone(&mut self, client: u64) -> u64 {
        let used_before = self.used;
        let mut unnamed = Vec::new();
        for (region, stored) in &mut self.regions {
            if stored.owner.is_some_and(|owner| owner.client == client) {
                stored.owner = None;
                if let Kept::WithClient = stored.kept {
                    unnamed.push(*region);
                }
            }
        }
        unnamed.into_iter().for_each(|region| self.release(region));
        used_before - self.used
    }
}

impl Kept {
    /// What a list shows.
    fn shown(&self) -> RegionName {
        match self {
            Self::WithClient => RegionName::new(""),
            Self::ByName(name) => RegionName::new(name),
            Self::ByFile(path) => RegionName::new(&format!("{FILE_PREFIX}{path}")),
        }
    }
}

/// Why not, for programs and for people.
pub(crate) type No = (Failure, String);
type Answer = Result<ControlAnswer, No>;

/// The usual unit of movement, as a power of two: 64 KiB.
const CHUNK_LOG2: u8 = 16;

fn no_memory(error: rustix::io::Errno) -> No {
    (Failure::NoCapacity, format!("the operating system gave no memory: {error}"))
}

fn draw_key() -> Result<RegionKey, rustix::io::Errno> {
    let mut key = [0; 16];
    let drawn = rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())?;
    if drawn == key.len() { Ok(RegionKey(key)) } else { Err(rustix::io::Errno::AGAIN) }
}

#[cfg(test)]
mod tests;
