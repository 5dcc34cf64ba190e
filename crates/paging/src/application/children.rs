//! The far memory of a process that forks, so that the child sees it as it was at that moment.
//!
//! Before the fork every chunk whose newest bytes are in a seat goes back to its region: from there the kernel gives the child
//! its pages, copied when one of the two processes stores to them. What is in no region then is at the memory server as it
//! should be. Until the process has forked nothing leaves a region and nothing is written back; threads that wait for
//! chunks are served as long as there are seats. Afterwards a chunk is written back, or discarded, for the first time only when the
//! snapshots that need what the server has of it have a copy.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outboard_wire::mutant;

use super::chunks::State;
use super::pages::Pages;
use super::region::PagedRegion;
use super::snapshots::{ChunkCopy, KeptAt, SnapshotId, Snapshots};
use super::space::PageSpace;

/// How many copies fault threads ask for at once.
const ASKED_MAX: usize = 1024;

/// Chunks of a region of which copies are wanted.
pub type Asked = (Arc<PagedRegion>, Range<u32>);

/// The state of forks and of the children that live.
pub(super) struct Children {
    /// Whether children are to see far memory at all.
    pub(super) is_used: bool,
    /// The process is about to fork: nothing leaves its region, and nothing is written back.
    is_still: AtomicBool,
    /// How many threads are mapping an object.
    makers: AtomicU32,
    /// How many snapshots are looked at.
    living: AtomicU32,
    snapshots: Mutex<Snapshots>,
    asked: Mutex<Vec<Asked>>,
}

impl Children {
    pub(super) fn new(is_used: bool) -> Self {
        Self {
            is_used,
            is_still: AtomicBool::new(false),
            makers: AtomicU32::new(0),
            living: AtomicU32::new(0),
            snapshots: Mutex::default(),
            asked: Mutex::new(Vec::with_capacity(if is_used { ASKED_MAX } else { 0 })),
        }
    }

    /// Whether nothing may leave its region now. To be asked under the lock of a shard.
    pub(super) fn is_still(&self) -> bool {
        self.is_still.load(Ordering::Acquire)
    }

    fn snapshots(&self) -> MutexGuard<'_, Snapshots> {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asked(&self) -> MutexGuard<'_, Vec<Asked>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the process has forked, if it is about to, and keeps it from that until the answer is dropped.
    pub(super) fn map(&self, give_way: impl Fn()) -> Making<'_> {
        loop {
            self.makers.fetch_add(1, Ordering::SeqCst);
            if !self.is_still.load(Ordering::SeqCst) {
                return Making(&self.makers);
            }
            self.makers.fetch_sub(1, Ordering::SeqCst);
            give_way();
        }
    }
}

/// A thread is mapping an object.
pub(super) struct Making<'a>(&'a AtomicU32);

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<S: PageSpace> Pages<S> {
    /// Whether forked children are to see this far memory.
    pub fn has_snapshots(&self) -> bool {
        self.children.is_used
    }

    /// The process is about to fork: from now on nothing leaves its region. Objects that are being mapped are waited for.
    pub fn begin_fork(&self) {
        self.children.is_still.store(true, Ordering::SeqCst);
        while self.children.makers.load(Ordering::SeqCst) > 0 {
            self.space.give_way();
        }
    }

    /// The process has forked, or has given it up.
    pub fn end_fork(&self) {
        self.children.is_still.store(false, Ordering::SeqCst);
    }

    /// Brings what is in seats and newer than at the server into the regions. Returns how many chunks cannot come now, because they are
    /// being read for the server: ask again.
    pub fn settle(&self) -> usize {
        let _uninterrupted = self.space.uninterrupted();
        let mut under_way = 0;
        for (shard, shelf) in self.shelves.iter().enumerate() {
            let mut cell = shelf.lock();
            if !cell.shard.has_unsaved() || mutant("paging.forked-with-chunks-in-seats") {
                continue;
            }
            let seats: Vec<_> = cell.shard.seats().collect();
            for (seat, key, state) in seats {
                if !matches!(state, State::Dirty | State::Saving) {
                    continue;
                }
                if cell.shard.is_sending(seat) {
                    under_way += 1;
                } else if let Some(region) = self.region(key.region) {
                    self.rescue(&mut cell, shard, (&region, key), seat);
                }
            }
        }
        under_way
    }

    /// All regions that are mapped and not being closed.
    pub fn mapped(&self) -> Vec<Arc<PagedRegion>> {
        let _uninterrupted = self.space.uninterrupted();
        self.regions().iter().filter(|region| !region.is_closing()).cloned().collect()
    }

    /// A child is about to be forked that will see far memory as it is now, all of which is [settled](Self::settle).
    pub fn begin_snapshot(&self) -> SnapshotId {
        let _uninterrupted = self.space.uninterrupted();
        let mut regions = self.mapped();
        regions.sort_unstable_by_key(|region| region.number);
        let mut snapshots = self.children.snapshots();
        let mut here = Vec::new();
        regions.iter().for_each(|region| region.unkept.insert_all());
        if snapshots.is_empty() {
            for shelf in &self.shelves {
                let cell = shelf.lock();
                let is_here = |state| matches!(state, State::Resident | State::Returned);
                let seats =
                    cell.shard.seats().filter(|(_, key, state)| key.page.is_none() && is_here(*state));
                here.extend(seats.map(|(_, key, _)| (key.region, key.index)));
            }
            for (number, index) in &here {
                if let Ok(at) = regions.binary_search_by_key(number, |region| region.number) {
                    regions[at].unkept.remove(*index);
                }
            }
        }
        self.children.living.fetch_add(1, Ordering::SeqCst);
        snapshots.begin(here)
    }

    /// A child has ended. Returns the snapshots whose copies are of no use any more.
    pub fn end_snapshot(&self, id: SnapshotId) -> Vec<SnapshotId> {
        let _uninterrupted = self.space.uninterrupted();
        let mut snapshots = self.children.snapshots();
        let ended = snapshots.end(id);
        self.children.living.fetch_sub(1, Ordering::SeqCst);
        ended
    }

    /// The youngest snapshot that a child sees.
    pub fn youngest_snapshot(&self) -> Option<SnapshotId> {
        let _uninterrupted = self.space.uninterrupted();
        self.children.snapshots().youngest()
    }

    /// Whether a child lives that needs what belongs to a snapshot.
    pub fn needs_snapshot(&self, id: SnapshotId) -> bool {
        let _uninterrupted = self.space.uninterrupted();
        self.children.snapshots().needs(id)
    }

    /// Where the bytes of a chunk are that it had at its server when a child was forked.
    pub fn find_kept(&self, id: SnapshotId, region: &PagedRegion, index: u32) -> KeptAt {
        let _uninterrupted = self.space.uninterrupted();
        match self.children.snapshots().find(id, (region.number, index)) {
            KeptAt::Server if region.blanks.has(index) => KeptAt::Zeros,
            found => found,
        }
    }

    /// Whether a snapshot needs what the server has of a chunk, and has no copy of it.
    pub(super) fn is_unkept(&self, region: &PagedRegion, index: u32) -> bool {
        self.children.living.load(Ordering::SeqCst) > 0 && region.unkept.has(index)
    }

    /// Whether a changed chunk may be written back. If a snapshot needs what it would replace, a copy is asked for.
    pub(super) fn may_be_replaced(&self, region: &Arc<PagedRegion>, index: u32) -> bool {
        if self.children.is_still() {
            return false;
        }
        if !self.is_unkept(region, index) || mutant("paging.replaced-without-a-copy") {
            return true;
        }
        if !region.unkept.is_asked(index) {
            let mut asked = self.children.asked();
            if asked.len() < ASKED_MAX {
                region.unkept.ask(index);
                asked.push((Arc::clone(region), index..index + 1));
                drop(asked);
                self.space.tell_keeper();
            }
        }
        false
    }

    /// Whether the server's bytes of chunks may be made zero. If snapshots need them, copies are asked for.
    pub fn may_be_discarded(&self, region: &Arc<PagedRegion>, chunks: &Range<u32>) -> bool {
        let _uninterrupted = self.space.uninterrupted();
        let is_unkept = |index: &u32| self.is_unkept(region, *index);
        let unkept = chunks.clone().find(is_unkept).filter(|_| !mutant("paging.discarded-without-a-copy"));
        let Some(first) = unkept else { return true };
        if !region.unkept.is_asked(first) {
            region.unkept.ask(first);
            self.children.asked().push((Arc::clone(region), first..chunks.end));
            self.space.tell_keeper();
        }
        false
    }

    /// The copies that are wanted, each of which is asked for once.
    pub fn take_asked(&self) -> Vec<Asked> {
        let _uninterrupted = self.space.uninterrupted();
        // The room that was made for them stays.
        self.children.asked().drain(..).collect()
    }

    /// Of which snapshot a copy of a chunk has to be made, and whether the chunk is zero; nothing, if no snapshot needs one.
    pub fn to_keep(&self, region: &PagedRegion, index: u32) -> Option<(SnapshotId, ChunkCopy)> {
        let _uninterrupted = self.space.uninterrupted();
        let snapshots = self.children.snapshots();
        let youngest = snapshots.youngest().filter(|_| self.is_unkept(region, index));
        if youngest.is_none() {
            region.unkept.remove(index);
        }
        Some((youngest?, if region.blanks.has(index) { ChunkCopy::Zeros } else { ChunkCopy::Bytes }))
    }

    /// A chunk was copied for a snapshot: it may be written back. Returns false if it has to be copied again for a younger one.
    pub fn kept(&self, id: SnapshotId, region: &PagedRegion, index: u32, kept: ChunkCopy) -> bool {
        let _uninterrupted = self.space.uninterrupted();
        let mut snapshots = self.children.snapshots();
        let is_kept = snapshots.keep(id, (region.number, index), kept);
        if is_kept {
            region.unkept.remove(index);
        }
        is_kept
    }
}
