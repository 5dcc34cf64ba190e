//! Far memory: objects larger than this machine's memory, used through plain pointers.
//!
//! ```no_run
//! use outboard::{FarMemory, FarOptions};
//!
//! // At the memory server of `outboard up`, unless the settings name another.
//! let far = FarMemory::connect(FarOptions::find()?.with_buffer("256MiB".parse()?))?;
//! let mut counts = far.allocate::<u64>(1 << 30)?; // eight gibibytes, a quarter of one here at a time
//! counts[123_456_789] += 1;
//! println!("{:?}", far.stats());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod array;
mod control;
mod error;
mod losses;
mod mapping;
mod memory;
mod options;
mod parts;
mod tries;

pub use array::{FarSlice, FarVec, Plain};
pub use error::{BufferTooLarge, FarError};
pub use losses::{FarLoss, FarLosses, LostObject};
pub use mapping::{Advice, FarMapping};
pub use memory::FarMemory;
pub(crate) use options::agent_of;
pub use options::{Buffer, BufferError, CacheMode, FarOptions, Mover, OnLoss, Path, RegionOptions};
pub use outboard_driver::paging::{LossReason, PagingStats as FarStats, RegionTraffic, Traffic};
