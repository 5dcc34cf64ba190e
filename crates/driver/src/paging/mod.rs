//! Far memory behind plain pointers: userfaultfd, the threads that answer its faults, and the links they fetch by.
//!
//! What happens to a chunk is decided by `outboard_paging::pager`; this module moves the bytes. A thread that
//! resolves faults never allocates per fault, never logs, never touches far memory, and takes no lock that an
//! application can hold while it faults.

mod bypass;
#[expect(unsafe_code)]
mod chunks;
mod config;
mod errands;
#[expect(unsafe_code)]
mod fingerprint;
mod flight;
mod introductions;
mod jobs;
#[expect(unsafe_code)]
mod losses;
#[expect(unsafe_code)]
mod mapping;
mod mistakes;
mod news;
#[cfg_attr(test, expect(unsafe_code))]
mod page_map;
mod pages;
mod parked;
mod pins;
mod region;
mod requests;
mod service;
mod side;
#[expect(unsafe_code)]
mod space;
mod stats;
mod stripes;
mod threads;
mod tries;
#[expect(unsafe_code)]
mod uninterrupted;

pub use config::{OnLoss, PagingConfig};
pub use losses::{Loss, LossListener, LossReason};
pub use pages::{Pages, PagingError};
pub use region::{PagedRegion, Path, Pattern, RegionSpec};
pub use service::{PagerNote, PagerService};
pub use space::Mover;
pub use stats::{PagingStats, RegionTraffic, Traffic};
pub use stripes::Stripes;
pub use threads::{PagerThreads, Peers, ThreadsError};
pub use tries::Missing;
