//! Far memory behind plain pointers, as far as it is a matter of the kernel: userfaultfd, the threads that answer its faults,
//! signals, clocks and the mapping of memory.
//!
//! The work of the threads is `outboard_paging::application`, which moves chunks by a [`Space`] and its links.

mod arrivals;
mod bell;
#[expect(unsafe_code)]
mod children;
mod choice;
#[expect(unsafe_code)]
mod copying;
mod following;
mod losses;
#[expect(unsafe_code)]
mod mapping;
#[cfg_attr(test, expect(unsafe_code))]
mod page_map;
#[expect(unsafe_code)]
mod process;
#[expect(unsafe_code)]
mod protection;
#[expect(unsafe_code)]
mod signal;
#[expect(unsafe_code)]
mod space;
#[cfg(any(target_arch = "aarch64", test))]
mod syndrome;
mod threads;
mod tries;
#[expect(unsafe_code)]
mod uninterrupted;

pub use children::{ChildFaults, ChildNews, ChildRange, FillError, Forks, NewChild};
pub use choice::FaultChoice;
pub use following::BufferKeeper;
pub use losses::LossListener;
pub use outboard_paging::application::{
    Cause, Change, ChunkCopy, Fault, KeptAt, LossReason, OnLoss, PAGE, PagedRegion, PagingConfig,
    PagingError, PagingStats, Path, Pattern, Process, ProcessAddress, RegionSpec, RegionTraffic, Remaining,
    ServerLoss, SnapshotId, Span, Stripes, Traffic,
};
pub use process::{check, default_threads, open};
pub use protection::PageProtection;
pub use space::{FaultAnswer, Mover, Space, SpaceConfig};
pub use threads::{PagerThreads, Peers, ThreadsError};
pub use tries::Missing;
pub use uninterrupted::Uninterrupted;

/// All far memory of this process. Fault threads and the application share it.
pub type ProcessPages = outboard_paging::application::Pages<Space>;
