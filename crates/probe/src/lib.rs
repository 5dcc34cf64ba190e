//! Finds out what this machine can do for Outboard, and says how to mend what is missing.
//! It changes nothing on the machine and decides nothing: rooms choose their paths by what it found.
//!
//! What can be tried is tried, on memory and descriptors of this process that no other code uses, rather than
//! inferred from the kernel's version. The rest is read from `/proc` and `/sys`.
//!
//! ```
//! use outboard_probe::{ProbeOptions, ProbeReport, DescriptorSource};
//!
//! let report = ProbeReport::gather(&ProbeOptions::default());
//! for finding in &report.findings {
//!     println!("{} {}: {}", finding.name, finding.state, finding.detail);
//! }
//! // Programs do not read sentences:
//! let moves = report.userfaultfd.operations.as_ref().is_some_and(|can| can.relocate.works());
//! let prefault_for_system_calls = report.userfaultfd.how == Some(DescriptorSource::UserModeOnly);
//! # let _ = (moves, prefault_for_system_calls);
//! ```

#![deny(unsafe_code)]

#[expect(unsafe_code)]
mod cache_misses;
mod cgroup;
mod fabric;
mod finding;
mod kernel;
mod links;
mod memory;
mod privileges;
mod processors;
mod report;
mod user;
mod userfaultfd;

pub use cache_misses::CacheMisses;
pub use cgroup::{Cgroup, ChildQuota};
pub use fabric::{Fabric, Libfabric};
pub use finding::{Area, Finding, FindingState};
pub use kernel::{HardwareCounters, Kernel};
pub use links::{LinkChoice, LinkKind, Links};
pub use memory::MemoryFacts;
pub use outboard_link::Address;
pub use privileges::{Privileges, ProcessCapabilities, ProcessLimits};
pub use processors::{Cache, NumaNode, Processors};
pub use report::{FindingCounts, ProbeOptions, ProbeReport};
pub use userfaultfd::{Attempt, DescriptorSource, Features, Operations, Trial, UserfaultfdSupport};
