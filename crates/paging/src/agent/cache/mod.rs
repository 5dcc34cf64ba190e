//! The agent's page cache: which bytes of which regions lie in its memory, what is read ahead, what goes.
//!
//! [`PageCache`] is shared by all threads of an agent, behind a lock that is held for a look-up only. Its unit is
//! the *entry* (1 MiB by default), which lies in a *slot* and is filled by *pieces* (chunks, mostly). What has to be
//! read becomes a [`LoadOrder`] that the thread which found it missing carries out on its own link to the server.
//!
//! What belongs to one thread has no lock: a [`Lane`] for each of its links to a server merges orders, passes them
//! on as [`Forwarding`] says, and combines write-backs.
//!
//! A [`CacheSwitch`] decides for one region whether all this pays. While it does not, a [`Shadow`] plays the cache
//! with keys only, to know when it would. A [`StaticCopy`] is a whole region, loaded once.

mod config;
mod counters;
mod entry;
mod lane;
mod load;
mod meter;
mod page_cache;
mod pieces;
mod plan;
mod prefetch;
mod recent;
mod region;
mod replacement;
mod residence;
mod shadow;
mod slab;
mod static_copy;
mod switch;
#[cfg(test)]
mod tests;
mod write_queue;
mod writes;

pub use config::{CacheConfig, ENTRY_LOG2_MAX, ENTRY_LOG2_MIN, Forwarding, PrefetchConfig};
pub use counters::{CacheCounters, Sources};
pub use lane::{Lane, Purpose, Read, ReadId, Transfer};
pub use load::{Ended, LoadId, LoadOrder, Place, Waiter};
pub use meter::{Bandwidth, BusyTime, Meter};
pub use page_cache::{Ask, PageCache, Verdict};
pub use region::{AttachError, Attachment, RegionName, RegionNumber};
pub use shadow::Shadow;
pub use slab::Slab;
pub use static_copy::{StaticCopy, Stretch};
pub use switch::{CacheSwitch, Caching, SwitchReport};
pub use write_queue::{CombinedWrite, WriteItem, WriteQueue};
pub use writes::WriteId;
