//! Far memory: objects larger than this machine's memory, used through plain pointers.

mod arena;
mod array;
mod buffer;
mod children;
mod control;
mod discard;
mod error;
mod home;
mod losses;
mod mapping;
mod memory;
mod options;
mod parts;
mod prefetch;
mod protections;
mod share;
mod tasks;
mod tries;
mod vec;

pub use arena::{FarAllocator, FarArena, FarBox};
pub use array::{FarSlice, Plain};
pub use buffer::{BufferError, BufferSize};
pub use error::{BufferTooLarge, FarError};
pub use home::{ArenaPlace, ArrayPlace, FarHome};
pub use losses::{FarLoss, FarLosses, LostObject};
pub use mapping::{Advice, FarMapping};
pub use memory::FarMemory;
pub use options::{
    BufferNode, CacheMode, Children, FarOptions, FaultAnswer, Mover, OnLoss, Path, RegionOptions,
};
pub use outboard_driver::paging::{
    LossReason, PageProtection, PagingError, PagingStats as FarStats, RegionTraffic, Traffic,
};
pub use vec::FarVec;
