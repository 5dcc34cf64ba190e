//! The system calls of userfaultfd: a process resolves the page faults of its own memory.
//!
//! It decides nothing: which page goes where and when is the caller's business, and so is the safety of moving
//! pages under code that points to them.

mod descriptor;
mod features;
mod message;
mod route;

pub use descriptor::{FaultWatch, Stopped, Userfaultfd, Wake};
pub use features::Features;
pub use message::{KernelChange, KernelFault, KernelFaultCause, KernelMessages};
pub use route::{DEVICE, DescriptorSource};
