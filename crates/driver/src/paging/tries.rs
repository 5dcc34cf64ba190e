//! Chunks for those who would rather have an error than a signal.
//!
//! Whoever tries never touches what is not here: it asks a fault thread for the chunk, waits for it with a deadline, and has
//! it stay in its region while it is read or written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outboard_paging::pager::{Access, Answer, ChunkKey, State};

use super::jobs::{Errand, Job};
use super::mistakes::Found;
use super::region::PagedRegion;
use super::uninterrupted::Uninterrupted;
use super::{PagerNote, PagerThreads, Pages};

/// Why bytes cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// They are not here, and their memory server is lost for good.
    Lost,
    /// They are not here, and did not come in time.
    Late,
    /// They were thrown away by whoever gave their addresses to `madvise`.
    ThrownAway,
    /// They belong to the process that has forked this one.
    Parent {
        /// Which that is.
        process: u32,
    },
}

/// Where a chunk is.
enum Whereabouts {
    /// In its region, where it stays until it is released.
    Held,
    /// On its way.
    Coming,
    /// At its memory server.
    Absent,
    /// Nowhere.
    Missing(Missing),
}

/// How long until a chunk is asked for again for which there was no room.
const PAUSE: Duration = Duration::from_millis(5);

/// One of those who wait for something.
pub(super) struct Counted<'a>(&'a AtomicU32);

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl PagerThreads {
    /// Runs `use_it` while these bytes of a chunk are in their region, whatever other threads do and whoever wants room.
    pub fn with_chunk<R>(
        &self,
        (region, index): (&Arc<PagedRegion>, u32),
        (start, len): (usize, usize),
        until: Instant,
        use_it: impl FnOnce() -> R,
    ) -> Result<R, Missing> {
        let pages = &self.pages;
        if pages.process != std::process::id() {
            return Err(Missing::Parent { process: pages.process });
        }
        let waiting = Counted::new(&pages.tries);
        loop {
            let news = pages.news_so_far();
            match pages.hold((region, index), (start, len)) {
                Whereabouts::Held => break,
                Whereabouts::Missing(missing) => return Err(missing),
                _ if Instant::now() >= until => return Err(Missing::Late),
                Whereabouts::Coming => {}
                Whereabouts::Absent => self.want(region, index),
            }
            let rest = until.saturating_duration_since(Instant::now());
            pages.wait_for_news_after(news, rest.min(PAUSE));
        }
        drop(waiting);
        let used = use_it();
        if pages.release(region, index) {
            // Whoever has waited for its seat may have it now.
            self.look();
        }
        Ok(used)
    }

    fn want(&self, region: &Arc<PagedRegion>, index: u32) {
        let _uninterrupted = Uninterrupted::new();
        let worker = &self.workers[index as usize % self.workers.len()];
        worker.tell(PagerNote::Want { region: Arc::clone(region), index });
    }
}

impl Pages {
    fn hold(&self, (region, index): (&Arc<PagedRegion>, u32), (start, len): (usize, usize)) -> Whereabouts {
        let _uninterrupted = Uninterrupted::new();
        let key = ChunkKey { region: region.number, index };
        let shard = self.shard_of(key);
        let mut cell = self.shelves[shard].lock();
        if cell.shard.state(key) == State::Absent {
            let is_lost = region.is_lost();
            return if is_lost { Whereabouts::Missing(Missing::Lost) } else { Whereabouts::Absent };
        }
        match cell.shard.fault(key, region.spec.class, Access::Read) {
            Answer::Here => {}
            Answer::Rescue(seat) => self.rescue(&mut cell, shard, region, index, seat),
            _ => return Whereabouts::Coming,
        }
        // Links and kernel know whole pages only.
        let page = rustix::param::page_size();
        let first = start & !(page - 1);
        let pages = (first, (start + len).next_multiple_of(page) - first);
        match self.look_at(&mut cell, (region, index), pages) {
            Found::Here => {}
            Found::Vanished => return Whereabouts::Absent,
            Found::ThrownAway => return Whereabouts::Missing(Missing::ThrownAway),
        }
        assert!(cell.shard.hold(key), "it is in its region");
        Whereabouts::Held
    }

    /// Lets go of a chunk. Returns whether somebody waits for seats.
    fn release(&self, region: &PagedRegion, index: u32) -> bool {
        let _uninterrupted = Uninterrupted::new();
        let key = ChunkKey { region: region.number, index };
        let mut cell = self.shelves[self.shard_of(key)].lock();
        cell.shard.release(key);
        cell.shard.parked() > 0
    }

    /// A chunk that somebody waits for without touching it, unless it is known or there is no room now.
    pub(super) fn want(&self, region: &Arc<PagedRegion>, index: u32) -> Option<Job> {
        let key = ChunkKey { region: region.number, index };
        let shard = self.shard_of(key);
        let mut cell = self.shelves[shard].lock();
        if region.is_lost() || region.is_closing() || cell.shard.state(key) != State::Absent {
            return None;
        }
        let mut held = 0;
        loop {
            if let Some(seat) = cell.shard.fetch_ahead(key, region.spec.class) {
                self.discard_frames(&mut cell, shard);
                self.had_no_seat.store(false, Ordering::Release);
                return Some(self.job(&cell, shard, region, seat, Errand::Demand));
            }
            let oldest = cell.shard.oldest();
            held += usize::from(!oldest.is_some_and(|seat| self.move_out(&mut cell, shard, seat)));
            if held > cell.shard.residents() && !self.sacrifice(&mut cell) {
                self.had_no_seat.store(true, Ordering::Release);
                return None;
            }
        }
    }

    /// Whether somebody waits for a chunk without touching it, and there is no seat for it.
    pub(super) fn is_cramped(&self) -> bool {
        self.tries.load(Ordering::Acquire) > 0 && self.had_no_seat.load(Ordering::Acquire)
    }

    /// Tells those who wait for a chunk without touching it that one has come.
    pub(super) fn tell_waiting(&self) {
        if self.tries.load(Ordering::Acquire) > 0 {
            self.announce();
        }
    }
}
