//! Far memory behind plain pointers, as far as it is a matter of the kernel: userfaultfd, the threads that answer its faults,
//! signals, clocks and the mapping of memory.
//!
//! What the threads do is `outboard_paging::application`, which moves chunks by a [`Space`] and its links.

mod losses;
#[expect(unsafe_code)]
mod mapping;
#[cfg_attr(test, expect(unsafe_code))]
mod page_map;
#[expect(unsafe_code)]
mod process;
#[expect(unsafe_code)]
mod space;
mod threads;
mod tries;
#[expect(unsafe_code)]
mod uninterrupted;

pub use losses::LossListener;
pub use outboard_paging::application::{
    Loss, LossReason, OnLoss, PagedRegion, PagingConfig, PagingError, PagingStats, Path, Pattern, RegionSpec,
    RegionTraffic, Stripes, Traffic,
};
pub use process::{check, default_threads, open};
pub use space::{Mover, Space, SpaceConfig};
pub use threads::{PagerThreads, Peers, ThreadsError};
pub use tries::Missing;
pub use uninterrupted::Uninterrupted;

/// All far memory of this process. Fault threads and the application share it.
pub type Pages = outboard_paging::application::Pages<Space>;
