//! Chunks for those who would rather have an error than a signal.
//!
//! A thread that tries never touches what is not here: it asks a fault thread for the chunk, waits for it with a deadline, and has
//! it stay in its region while it is read or written.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outboard_paging::application::{PagedRegion, PagerNote, Span, Whereabouts};

use super::PagerThreads;
use super::uninterrupted::Uninterrupted;

/// Why bytes cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// They are not here, and their memory server is lost for good.
    Lost,
    /// They are not here, and did not come in time.
    Late,
    /// The program threw them away by giving their addresses to `madvise`.
    ThrownAway,
    /// They belong to the process that has forked this one.
    Parent {
        /// Which that is.
        process: u32,
    },
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
    /// Runs `use_it` while these bytes of a chunk are in their region, whatever other threads do, and want room for.
    pub fn with_chunk<R>(
        &self,
        (region, index): (&Arc<PagedRegion>, u32),
        addresses: Span,
        until: Instant,
        use_it: impl FnOnce() -> R,
    ) -> Result<R, Missing> {
        let pages = &self.pages;
        let space = pages.space();
        if space.process != std::process::id() {
            return Err(Missing::Parent { process: space.process });
        }
        let waiting = Counted::new(&pages.tries);
        loop {
            let news = space.news_so_far();
            match pages.hold((region, index), addresses) {
                Whereabouts::Held => break,
                Whereabouts::Lost => return Err(Missing::Lost),
                Whereabouts::ThrownAway => return Err(Missing::ThrownAway),
                _ if Instant::now() >= until => return Err(Missing::Late),
                Whereabouts::Coming => {}
                Whereabouts::Absent => self.want(region, index),
            }
            let rest = until.saturating_duration_since(Instant::now());
            space.wait_for_news_after(news, rest.min(PAUSE));
        }
        drop(waiting);
        let used = use_it();
        if pages.release((region, index), addresses) {
            // A thread that has waited for its seat may have it now.
            self.look();
        }
        Ok(used)
    }

    /// A number that changes whenever a chunk may have come that is waited for, as long as one [waits](Self::wait_for_arrival).
    pub fn news(&self) -> u64 {
        self.pages.space().news_so_far()
    }

    /// Waits until there is other news than this, for a moment at most.
    pub fn wait_for_arrival(&self, news: u64) {
        let _waiting = Counted::new(&self.pages.tries);
        self.pages.space().wait_for_news_after(news, PAUSE);
    }

    /// Has a fault thread fetch a chunk. Nothing is told of it if there is no room: ask again.
    pub fn want(&self, region: &Arc<PagedRegion>, index: u32) {
        let _uninterrupted = Uninterrupted::new();
        let worker = &self.workers[index as usize % self.workers.len()];
        worker.tell(PagerNote::Want { region: Arc::clone(region), index });
    }
}
