//! The agent's page cache: which bytes of which regions lie in its memory, what is read ahead, what goes.
//!
//! [`PageCache`] is shared by all threads of an agent, behind a lock that is held for a look-up only. Its unit is
//! the *entry* (1 MiB by default), which lies in a *slot* and is filled by *pieces* (chunks, mostly). What has to be
//! read becomes a [`LoadOrder`] that the thread which found it missing carries out on its own link to the server.
//!
//! State of one thread has no lock: a [`ReadQueue`] for each of its links to a server merges orders, passes them
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
pub use lane::{Purpose, Read, ReadId, ReadQueue, Transfer};
pub use load::{CacheSpan, EndedWait, LoadId, LoadOrder, WaiterId};
pub use meter::{BusyTime, ByteRate, ServerMeter};
pub use page_cache::{CacheRequest, CacheVerdict, PageCache};
pub use region::{AttachError, RegionAttachment, RegionIdentity, RegionNumber};
pub use shadow::Shadow;
pub use slab::Slab;
pub use static_copy::{CopySpan, StaticCopy};
pub use switch::{CacheSwitch, Caching, SwitchReport};
pub use write_queue::{CombinedWrite, WriteItem, WriteQueue};
pub use writes::WriteBackId;
