//! Memory that more than one process or thread touches at once.
//!
//! Another process may write to a mapped segment at any moment, and no lock of ours stops it. So nothing in this
//! crate ever makes a `&` or `&mut` to such bytes: single words are atomics, and everything else goes through
//! the copies in [`copy`], which the compiler cannot look into, merge or repeat. Whoever needs to check
//! bytes copies them first and checks the copy.

mod buffer;
pub mod copy;
mod mapping;
mod mirror;
mod segment;
mod window;

pub use buffer::Buffer;
pub use mapping::{Mapping, SegmentAccess};
pub use mirror::Mirror;
pub use segment::{AdoptError, LargePages, Segment};
pub use window::{Window, WindowMut};
