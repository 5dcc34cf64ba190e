//! The regions this process lets others reach.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use outboard_wire::access::AccessStatus;
use outboard_wire::{Generation, Grant, RegionId, RegionKey, Rights};

use crate::memory::Segment;

/// A region that others may open.
#[derive(Debug)]
pub struct Export {
    /// Its id here.
    pub region: RegionId,
    /// Which life of that id.
    pub generation: Generation,
    /// Its bytes.
    pub memory: Arc<Segment>,
    /// The keys that open it, each with what it allows.
    pub keys: Vec<(RegionKey, Rights)>,
}

impl Export {
    /// The grant that the holder of the `index`-th key presents.
    pub fn grant(&self, index: usize) -> Option<Grant> {
        let (key, rights) = *self.keys.get(index)?;
        let size = self.memory.len() as u64;
        Some(Grant { region: self.region, generation: self.generation, key, rights, size })
    }

    /// The rights that `key` gives, if it opens this region at all.
    fn rights_of(&self, key: &RegionKey) -> Option<Rights> {
        let mut found = None;
        for (own, rights) in &self.keys {
            if own.matches(key) {
                found = Some(*rights);
            }
        }
        found
    }
}

/// All regions that this process exports, shared by its links. A link looks a region up when its peer opens it, and again
/// whenever the table has changed; it keeps nothing of regions that its peer does not have open, so a region that is
/// removed is gone with the last who uses it.
#[derive(Debug, Default)]
pub struct Exports {
    table: RwLock<HashMap<RegionId, Arc<Export>>>,
    version: AtomicU64,
}

impl Exports {
    /// No regions yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Lets others open `export`. An earlier region of that id is withdrawn; if it is the same one with other keys,
    /// peers that have it open keep it open.
    ///
    /// # Panics
    /// If a key allows writing to memory that is mapped here to read only.
    pub fn add(&self, export: Export) {
        let may_write = export.keys.iter().any(|(_, rights)| rights.includes(Rights::WRITE));
        assert!(
            !may_write || export.memory.is_writable(),
            "a key to write for memory that is read only here"
        );
        self.change(|table| table.insert(export.region, Arc::new(export)));
    }

    /// Lets no peer open or access the region any more. A peer that has mapped it through shared memory keeps its
    /// mapping until it closes the region; it never sees what the memory is used for next, because segments are
    /// not used again.
    pub fn remove(&self, region: RegionId) {
        self.change(|table| table.remove(&region));
    }

    /// The former region is dropped when others can look again: giving memory back takes a while.
    fn change(&self, edit: impl FnOnce(&mut HashMap<RegionId, Arc<Export>>) -> Option<Arc<Export>>) {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = edit(&mut table);
        self.version.fetch_add(1, Ordering::Release);
        drop(table);
        drop(replaced);
    }

    fn find(&self, region: RegionId) -> Option<Arc<Export>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).get(&region).cloned()
    }

    /// Checks an opening. Which part of it was wrong is not told.
    pub(crate) fn open(
        &self,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
        rights: Rights,
    ) -> Result<Arc<Export>, AccessStatus> {
        let export = self.find(region).filter(|export| export.generation == generation);
        let export = export.ok_or(AccessStatus::NotOpen)?;
        let held = export.rights_of(key).ok_or(AccessStatus::NotOpen)?;
        if held.includes(rights) { Ok(export) } else { Err(AccessStatus::NoRight) }
    }

    /// Changes whenever a region was added or removed: a link whose peer holds open regions looks at them again then.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether an open region is still exported.
    pub(crate) fn still_has(&self, export: &Arc<Export>) -> bool {
        self.find(export.region).is_some_and(|current| {
            current.generation == export.generation && Arc::ptr_eq(&current.memory, &export.memory)
        })
    }
}
