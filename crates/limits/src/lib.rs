//! Reads how much memory and processor time this process may have: from the machine, from the control groups around it
//! and from its affinity mask; which NUMA nodes there are; and what has run out when a call fails. It keeps account of what a process takes for others. It does not decide what anyone does with that, and it makes no groups.
//!
//! ```
//! use outboard_limits::Allowance;
//!
//! let here = Allowance::of_this_process();
//! if let Some(limit) = here.memory.lowest() {
//!     println!("at most {limit}");
//! }
//! println!("{} threads: {}", here.processors.threads(), here.processors);
//! ```
//!
//! # Caveats
//! - A container sees the groups from its own upwards only if its file system shows them. Version 1 tells of the limits
//!   above it all the same (`hierarchical_memory_limit`), version 2 does not.
//! - Where control groups were mounted outside the process's cgroup namespace (`-v /sys/fs/cgroup:/sys/fs/cgroup`), nothing says
//!   which of the groups there is its own, and no limits are found.
//! - Swap is not counted: a page that was just made present is not meant to be swapped out.
//! - Limits and usage change while a process runs. What is read here is how things stand now.

#![deny(unsafe_code)]

mod cores;
mod files;
mod groups;
mod growth;
mod memory;
#[expect(unsafe_code)]
mod nodes;
mod pressure;
mod processors;
mod quantity;
mod shortage;

pub use cores::{CoreList, CoreListError};
pub use files::{Files, field, with_files};
pub use groups::{GroupFolder, GroupVersion, Groups};
pub use growth::{Growth, KeptMemory, QueueMemory, growth};
pub use memory::{LimitSetter, MemoryLimit, MemoryLimits, private_memory};
pub use nodes::{memory_nodes, node_towards};
pub use pressure::memory_stalls;
pub use processors::{ProcessorLimits, ProcessorQuota, spin};
pub use quantity::{bytes as show_bytes, limit as show_limit, parse_size, size as show_size};
pub use shortage::{Shortage, explain, why_failed};

/// How much memory and processor time this process may have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowance {
    /// Memory.
    pub memory: MemoryLimits,
    /// Processors.
    pub processors: ProcessorLimits,
}

impl Allowance {
    /// That of this process now.
    pub fn of_this_process() -> Self {
        Self::read(&Files::of_this_machine())
    }

    /// That of a process with these files.
    pub fn read(files: &Files<'_>) -> Self {
        let groups = Groups::read(files);
        Self { memory: MemoryLimits::read(files, &groups), processors: ProcessorLimits::read(files, &groups) }
    }
}
