//! The regions of a memory server: who reserved them, under which name, and what is left.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outboard_link::memory::Segment;
use outboard_link::{Export, Exports};
use outboard_wire::control::{ControlAnswer, Failure, LIST_MAX, ListedRegion, Question, RegionName};
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
}

/// A client of the store, by whatever number its owner tells clients apart.
type Client = u64;

struct StoredRegion {
    /// Who reserved it; none once a named region has outlived its client.
    owner: Option<Owner>,
    name: RegionName,
    chunk_log2: u8,
    size: u64,
    keys: Keys,
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
}

impl RegionStore {
    /// An empty store that exports its regions through `exports`.
    pub fn new(config: StoreConfig, exports: Arc<Exports>) -> Self {
        Self { config, exports, used: 0, next_id: 1, regions: BTreeMap::new(), names: HashMap::new() }
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
        };
        answer.unwrap_or_else(|(failure, detail)| ControlAnswer::failed(failure, &detail))
    }

    fn reserve(&mut self, owner: Owner, size: u64, chunk_log2: u8, name: &RegionName) -> Answer {
        if size == 0 {
            return Err((
                Failure::BadRequest,
                "a region of no bytes is of no use; ask for at least one".into(),
            ));
        }
        let page = rustix::param::page_size() as u64;
        let rounded = size.checked_next_multiple_of(page).filter(|size| *size <= i64::MAX as u64);
        let left = self.config.capacity - self.used;
        let size = rounded.filter(|size| *size <= left).ok_or_else(|| {
            let capacity = self.config.capacity;
            let detail = format!(
                "{size} bytes asked, {left} of {capacity} left; free regions or start the server with more --capacity"
            );
            (Failure::NoCapacity, detail)
        })?;
        if !name.as_str().is_empty() && self.names.contains_key(name.as_str()) {
            let detail = format!("a region named “{name}” exists; open it, or free it first");
            return Err((Failure::NameTaken, detail));
        }
        let refused = |error: rustix::io::Errno| {
            (Failure::NoCapacity, format!("the operating system gave no memory: {error}"))
        };
        let memory = Segment::create(c"outboard-region", size as usize).map_err(refused)?;
        let keys = Keys { full: draw_key().map_err(refused)?, read: draw_key().map_err(refused)? };
        let region = RegionId(self.next_id);
        self.next_id += 1;
        self.exports.add(Export {
            region,
            generation: GENERATION,
            memory: Arc::new(memory),
            keys: vec![(keys.full, Rights::ALL), (keys.read, Rights::READ)],
        });
        self.used += size;
        if !name.as_str().is_empty() {
            self.names.insert(name.as_str().to_owned(), region);
        }
        let stored = StoredRegion { owner: Some(owner), name: *name, chunk_log2, size, keys };
        let answer = ControlAnswer::Region(self.describe(region, &stored, Rights::ALL));
        self.regions.insert(region, stored);
        Ok(answer)
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
        let found = self.names.get(name.as_str()).and_then(|id| Some((*id, self.regions.get(id)?)));
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
            self.used -= stored.size;
            self.names.remove(stored.name.as_str());
        }
    }

    fn list(&self, after: RegionId) -> ControlAnswer {
        let beyond = RegionId(after.0.saturating_add(1))..;
        let mut following = self.regions.range(beyond).map(|(region, stored)| ListedRegion {
            region: *region,
            generation: GENERATION,
            size: stored.size,
            owner_pid: stored.owner.map_or(0, |owner| owner.pid),
            name: stored.name,
        });
        let regions = following.by_ref().take(LIST_MAX).collect();
        ControlAnswer::Regions { regions, more: following.next().is_some() }
    }

    /// A client has gone: its regions go too, except those with names. Returns how many bytes came free.
    pub fn client_gone(&mut self, client: u64) -> u64 {
        let used_before = self.used;
        let mut unnamed = Vec::new();
        for (region, stored) in &mut self.regions {
            if stored.owner.is_some_and(|owner| owner.client == client) {
                stored.owner = None;
                if stored.name.as_str().is_empty() {
                    unnamed.push(*region);
                }
            }
        }
        unnamed.into_iter().for_each(|region| self.release(region));
        used_before - self.used
    }
}

type Answer = Result<ControlAnswer, (Failure, String)>;

fn draw_key() -> Result<RegionKey, rustix::io::Errno> {
    let mut key = [0; 16];
    let drawn = rustix::rand::getrandom(&mut key[..], rustix::rand::GetRandomFlags::empty())?;
    if drawn == key.len() { Ok(RegionKey(key)) } else { Err(rustix::io::Errno::AGAIN) }
}

#[cfg(test)]
mod tests;
