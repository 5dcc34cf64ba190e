//! Memory that this process shares with others; the rules for touching it are those of [`outboard_contract::memory`].

mod file;
mod file_backing;
mod mirror;
mod presence;
mod segment;

pub use mirror::Mirror;
pub use outboard_contract::memory::{Buffer, Mapping, SegmentAccess, Window, WindowMut, copy};
pub use segment::{AdoptError, LargePages, Segment};
