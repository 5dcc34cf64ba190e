//! Memory that more than one process or thread touches at once.
//!
//! Another process may write to a mapped segment at any moment, and no lock of ours stops it. So nothing here
//! ever makes a `&` or `&mut` to such bytes: single words are atomics, and everything else goes through
//! the copies in [`copy`], which the compiler cannot look into, merge or repeat. Code that needs to check
//! bytes copies them first and checks the copy.

mod buffer;
pub mod copy;
mod mapping;
mod window;

pub use buffer::Buffer;
pub use mapping::{Mapping, SegmentAccess};
pub use window::{Window, WindowMut};
