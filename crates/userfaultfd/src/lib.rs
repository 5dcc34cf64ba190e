//! The system calls of userfaultfd: a process resolves the page faults of its own memory.
//!
//! It decides nothing: which page goes where and when is the caller's business, and so is the safety of moving
//! pages under whoever points to them.

mod descriptor;
mod features;
mod message;
mod route;

pub use descriptor::{Stopped, Userfaultfd, Wake, Watch};
pub use features::Features;
pub use message::{Cause, Change, Fault, Messages};
pub use route::{DEVICE, Route};
