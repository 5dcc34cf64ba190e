//! Bytes on their way into the cache, and the requests that wait for them.

use core::ops::Range;

use outboard_wire::mutant;
use outboard_wire::paging::FetchSource;

use super::entry::NO_NUMBER;
use super::region::RegionNumber;
use super::slab::Slab;

/// A range of the cache's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSpan {
    /// Which slot.
    pub slot: u32,
    /// Where in the slot it begins.
    pub offset: u32,
    /// Its length in bytes.
    pub len: u32,
}

/// A load by its number, from its order until it is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LoadId(pub(crate) u32);

/// The bytes to read from a server, and where to put them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadOrder {
    /// Its name when it is done.
    pub load: LoadId,
    /// Which region to read.
    pub region: RegionNumber,
    /// From where.
    pub offset: u64,
    /// To where, and how much.
    pub place: CacheSpan,
    /// Whether no application has asked for the bytes yet.
    pub is_ahead: bool,
}

/// The caller's own name for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WaiterId(pub u64);

/// The end of a request that had to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedWait {
    /// Which request.
    pub waiter: WaiterId,
    /// Where its bytes are. The slot stays until it is [released](super::PageCache::release), also if the load
    /// failed.
    pub place: CacheSpan,
    /// Where the bytes came from; `None` if they did not come.
    pub source: Option<FetchSource>,
}

/// A load under way.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) slot: u32,
    pub(crate) pieces: Range<u32>,
    pub(crate) bytes: u64,
    pub(crate) is_ahead: bool,
    /// The next load into the same slot.
    pub(crate) next: u32,
    first_link: u32,
}

impl Load {
    pub(crate) fn is_awaited(&self) -> bool {
        self.first_link != NO_NUMBER
    }
}

/// A request that waits for one load or several.
#[derive(Clone, Debug)]
struct Wait {
    waiter: WaiterId,
    place: CacheSpan,
    source: FetchSource,
    pending: u32,
    has_failed: bool,
}

/// One load that one request waits for.
#[derive(Clone, Copy, Debug)]
struct Link {
    wait: u32,
    next: u32,
}

/// All loads under way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    loads: Slab<Load>,
    waits: Slab<Wait>,
    links: Slab<Link>,
    /// How many loads requests wait for.
    pub(crate) awaited: u32,
    /// How many bytes are on their way ahead of requests.
    pub(crate) ahead_bytes: u64,
}

impl Loads {
    pub(crate) fn begin(&mut self, load: LoadPlan) -> u32 {
        if load.is_ahead {
            self.ahead_bytes += load.bytes;
        }
        let LoadPlan { slot, pieces, bytes, is_ahead, next } = load;
        self.loads.insert(Load { slot, pieces, bytes, is_ahead, next, first_link: NO_NUMBER })
    }

    pub(crate) fn get(&self, number: u32) -> Option<&Load> {
        self.loads.get(number)
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Load> {
        self.loads.get_mut(number)
    }

    /// A request that will wait for loads.
    pub(crate) fn open_wait(&mut self, waiter: WaiterId, place: CacheSpan) -> u32 {
        let wait = Wait { waiter, place, source: FetchSource::Late, pending: 0, has_failed: false };
        self.waits.insert(wait)
    }

    /// The request waits for this load too.
    pub(crate) fn join(&mut self, wait: u32, load: u32) {
        let (Some(waiting), Some(load)) = (self.waits.get_mut(wait), self.loads.get_mut(load)) else {
            return;
        };
        waiting.pending += 1;
        if !load.is_ahead {
            waiting.source = FetchSource::Miss;
        }
        if !load.is_awaited() {
            self.awaited += 1;
        } else if mutant("paging.joined-fetch-forgotten") {
            return;
        }
        load.first_link = self.links.insert(Link { wait, next: load.first_link });
    }

    /// Where the bytes of a waiting request come from.
    pub(crate) fn source_of(&self, wait: u32) -> FetchSource {
        self.waits.get(wait).map_or(FetchSource::Miss, |wait| wait.source)
    }

    /// A load is over. Tells of the requests that waited for nothing else.
    pub(crate) fn end(
        &mut self,
        number: u32,
        is_done: bool,
        mut tell: impl FnMut(EndedWait),
    ) -> Option<Load> {
        let load = self.loads.remove(number)?;
        if load.is_ahead {
            self.ahead_bytes -= load.bytes;
        }
        if load.is_awaited() {
            self.awaited -= 1;
        }
        let mut next = load.first_link;
        while let Some(link) = self.links.remove(next) {
            next = link.next;
            let Some(wait) = self.waits.get_mut(link.wait) else { continue };
            wait.pending -= 1;
            wait.has_failed |= !is_done;
            if wait.pending == 0 {
                let Wait { waiter, place, source, has_failed, .. } = *wait;
                self.waits.remove(link.wait);
                tell(EndedWait { waiter, place, source: (!has_failed).then_some(source) });
            }
        }
        Some(load)
    }

    /// How many requests wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waits.len()
    }

    /// How many loads are under way.
    pub(crate) fn count(&self) -> usize {
        self.loads.len()
    }
}

/// A load that is about to begin.
pub(crate) struct LoadPlan {
    pub(crate) slot: u32,
    pub(crate) pieces: Range<u32>,
    pub(crate) bytes: u64,
    pub(crate) is_ahead: bool,
    pub(crate) next: u32,
}
