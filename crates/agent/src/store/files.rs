//! Regions that are loaded from files and written to them. The files themselves are not the store's business.

use std::sync::Arc;

use outboard_link::memory::Segment;
use outboard_wire::control::{ControlAnswer, ControlFailure, RegionSharing};
use outboard_wire::{Generation, Incarnation, RegionId, RegionKey, Rights};

use super::region::StoredRegion;
use super::{CHUNK_LOG2, Counted, Kept, No, RegionStore};

/// Memory for a file that is being read. It counts against the capacity until it is given to
/// [`RegionStore::finish_load`].
pub(crate) struct LoadPlan {
    path: String,
    size: u64,
    footprint: u64,
    memory: Segment,
}

impl LoadPlan {
    /// The file below the data directory.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Where the bytes go.
    pub(crate) fn memory(&self) -> &Segment {
        &self.memory
    }

    /// How many there are.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// A region that is being written to its file, until it is given to [`RegionStore::finish_sync`].
pub(crate) struct SyncPlan {
    region: RegionId,
    path: String,
    size: u64,
    memory: Arc<Segment>,
}

impl SyncPlan {
    /// The file below the data directory.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The region's memory, which may be longer than the file.
    pub(crate) fn memory(&self) -> &Segment {
        &self.memory
    }

    /// How many bytes the file has.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

impl RegionStore {
    /// Gives `process` the region that a file was loaded into, if it was.
    pub(crate) fn loaded(
        &mut self,
        process: Incarnation,
        path: &str,
        (rights, sharing): (Rights, RegionSharing),
    ) -> Option<ControlAnswer> {
        let region = *self.files.get(path)?;
        Some(self.open(process, region, (rights, sharing)).unwrap_or_else(no))
    }

    /// Makes room for a file of `size` bytes.
    pub(crate) fn begin_load(&mut self, path: &str, size: u64) -> Result<LoadPlan, No> {
        let (memory, footprint) = self.allocate(size, (Counted::Whole, false))?;
        Ok(LoadPlan { path: path.to_owned(), size, footprint, memory })
    }

    /// Makes a region of a file that was read, or gives its room back if that failed. A process that was second to load
    /// the same file gets the first one's region.
    pub(crate) fn finish_load(
        &mut self,
        process: Incarnation,
        plan: LoadPlan,
        how: (Rights, RegionSharing),
        read: Result<(), No>,
    ) -> ControlAnswer {
        let LoadPlan { path, size, footprint, memory } = plan;
        let registered = match read {
            Err(reason) => Err(reason),
            Ok(()) if self.files.contains_key(&path) => {
                self.capacity.give_back(footprint);
                Ok(())
            }
            Ok(()) => {
                let kept = Kept::ByFile(path.clone());
                self.register(process, memory, kept, (size, footprint, CHUNK_LOG2)).map(drop)
            }
        };
        match registered {
            // A client that has gone meanwhile left the file to those that ask for it next.
            Ok(()) => self.loaded(process, &path, how).unwrap_or_else(|| {
                ControlAnswer::failed(ControlFailure::NoSuchRegion, "the region was freed meanwhile")
            }),
            Err(reason) => {
                self.capacity.give_back(footprint);
                no(reason)
            }
        }
    }

    /// What is needed to write a region to its file.
    pub(crate) fn begin_sync(
        &mut self,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
    ) -> Result<SyncPlan, No> {
        let stored = self.writable(region, generation, key)?;
        let Kept::ByFile(path) = &stored.kept else {
            let detail = format!("{region} was not loaded from a file, so there is none to write it to");
            return Err((ControlFailure::NoFile, detail));
        };
        if stored.is_syncing {
            let detail = format!("“{path}” is being written already; ask again when that is done");
            return Err((ControlFailure::InUse, detail));
        }
        let (path, size, memory) = (path.clone(), stored.gate.size, Arc::clone(&stored.gate.memory));
        stored.is_syncing = true;
        Ok(SyncPlan { region, path, size, memory })
    }

    /// The memory of a region, for the holder of a key that allows writing. All of it is counted against the capacity from now
    /// on.
    pub(crate) fn whole_memory(
        &mut self,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
    ) -> Result<Arc<Segment>, No> {
        let gate = Arc::clone(&self.writable(region, generation, key)?.gate);
        if !gate.take(0, gate.size) {
            let detail = format!(
                "{region} is sparse, and too little is left of the capacity for all of it; free regions"
            );
            return Err((ControlFailure::NoCapacity, detail));
        }
        Ok(Arc::clone(&gate.memory))
    }

    fn writable(
        &mut self,
        region: RegionId,
        generation: Generation,
        key: &RegionKey,
    ) -> Result<&mut StoredRegion, No> {
        let stored = self.with_key(region, generation, key, Rights::NONE)?;
        if !stored.gate.keys.rights_of(key).is_some_and(|rights| rights.includes(Rights::WRITE)) {
            let detail = "this key does not allow writing; open the region with the right to write";
            return Err((ControlFailure::NoRight, detail.into()));
        }
        Ok(stored)
    }

    /// The region was written, or it was not.
    pub(crate) fn finish_sync(&mut self, plan: &SyncPlan) {
        if let Some(stored) = self.regions.get_mut(&plan.region) {
            stored.is_syncing = false;
        }
    }
}

/// A no, as it travels.
pub(super) fn no((failure, detail): No) -> ControlAnswer {
    ControlAnswer::failed(failure, &detail)
}
