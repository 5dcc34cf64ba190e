//! The application's half of paging: the pager that answers page faults of far memory.
//!
//! A [`Pager`] is what one fault thread does with its links: it reads faults, fetches chunks from a memory server or by the
//! agent, and saves those that have changed. All fault threads and the application share the [`Pages`], whose chunks are
//! decided about by [`chunks`]. The memory itself is a [`PageSpace`]: pages of the kernel in a process, or bytes in a simulator.
//!
//! A thread that resolves faults never allocates per fault, never logs, never touches far memory, and takes no lock that an
//! application can hold while it faults.

mod arrivals;
mod blanks;
mod bypass;
mod children;
pub mod chunks;
mod config;
mod departures;
mod discards;
mod errands;
mod faults;
mod fingerprint;
mod follower;
mod fullness;
mod gathering;
mod grain;
mod in_place;
mod introductions;
mod jobs;
mod losses;
mod mistakes;
mod pager;
mod pages;
mod patterns;
mod prefetch;
mod readahead;
mod recording;
mod region;
mod requests;
mod route;
mod side;
mod sizes;
mod snapshots;
mod space;
mod stats;
mod stripes;
mod unkept;
mod waiting;
mod ways;

pub use children::Asked;
pub use config::{OnLoss, PagingConfig, PagingError};
pub use discards::Remaining;
pub use fingerprint::{FingerprintKey, PAGE};
pub use follower::{BufferFollower, BufferReason, MemoryReadings};
pub use in_place::InPlace;
pub use jobs::CHUNK_MAX;
pub use losses::{LossReason, ServerLoss};
pub use pager::{Pager, PagerNote};
pub use pages::{Cell, CellGuard, Pages};
pub use prefetch::PrefetchShare;
pub use readahead::{Ahead, ReadAhead};
pub use recording::{BadRecording, RecordedRegion, Recording};
pub use region::{PagedRegion, Path, Pattern, RegionSpec};
pub use requests::Whereabouts;
pub use route::{PathChooser, PathOption};
pub use snapshots::{ChunkCopy, KeptAt, SnapshotId, Snapshots};
pub use space::{
    AddressRange, Cause, Change, Fault, Faults, FrameSpan, Held, PageSpace, Place, Process, ProcessAddress,
    Span,
};
pub use stats::{PagingStats, RegionTraffic, Traffic};
pub use stripes::Stripes;
