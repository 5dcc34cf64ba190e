//! The application's half of paging: the pager that answers page faults of far memory.
//!
//! A [`Pager`] is what one fault thread does with its links: it reads faults, fetches chunks from a memory server or by the
//! agent, and saves those that have changed. All fault threads and the application share the [`Pages`], whose chunks are
//! decided about by [`chunks`]. The memory itself is a [`PageSpace`]: pages of the kernel in a process, or bytes in a simulator.
//!
//! A thread that resolves faults never allocates per fault, never logs, never touches far memory, and takes no lock that an
//! application can hold while it faults.

mod arrivals;
mod bypass;
pub mod chunks;
mod config;
mod departures;
mod errands;
mod faults;
mod fingerprint;
mod introductions;
mod jobs;
mod losses;
mod mistakes;
mod pager;
mod pages;
mod readahead;
mod region;
mod requests;
mod route;
mod side;
mod space;
mod stats;
mod stripes;
mod ways;

pub use config::{OnLoss, PagingConfig, PagingError};
pub use fingerprint::{FingerprintKey, PAGE};
pub use jobs::CHUNK_MAX;
pub use losses::{Loss, LossReason};
pub use pager::{Pager, PagerNote};
pub use pages::{Cell, CellGuard, Pages};
pub use readahead::{Ahead, ReadAhead};
pub use region::{PagedRegion, Path, Pattern, RegionSpec};
pub use requests::Whereabouts;
pub use route::{Route, RouteChooser};
pub use space::{
    AddressRange, Cause, Change, Fault, Faults, FrameSpan, Held, PageSpace, Place, Process, Span,
};
pub use stats::{PagingStats, RegionTraffic, Traffic};
pub use stripes::Stripes;
