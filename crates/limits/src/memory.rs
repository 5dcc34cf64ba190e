//! How much memory a process can have, and how much of it is left.

use std::fmt;

use crate::files::{Files, field};
use crate::groups::{GroupVersion, Groups};
use crate::quantity;

/// What limits the memory of a process: the machine, its control group, and the groups around that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits(Vec<MemoryLimit>);

/// A limit to the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// In bytes.
    pub bytes: u64,
    /// How many bytes of it are neither in use nor kept for what can be dropped.
    pub left: u64,
    /// What sets it.
    pub set_by: LimitSetter,
}

/// What sets a limit to a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitSetter {
    /// The machine has no more.
    Machine,
    /// The control group of the process, or one above it.
    Cgroup {
        /// The file that says so.
        file: String,
    },
}

/// Version 1 writes no limit as a number near 2⁶³.
const UNLIMITED_FROM: u64 = 1 << 60;
/// The most that is kept free below a limit.
const RESERVE_MAX: u64 = 256 << 20;

/// How much memory this process has for itself alone, in bytes: its heap and stacks, and what it has changed of its program.
pub fn private_memory(files: &Files<'_>) -> Option<u64> {
    let status = files.text("/proc/self/status")?;
    let kib: u64 = field(&status, "RssAnon:")?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

impl MemoryLimits {
    /// Those of this process now.
    pub fn of_this_process() -> Self {
        let files = Files::of_this_machine();
        Self::read(&files, &Groups::read(&files))
    }

    /// Those of a process in these groups.
    pub fn read(files: &Files<'_>, groups: &Groups) -> Self {
        let mut limits: Vec<MemoryLimit> = machine(files).into_iter().collect();
        if let Some(place) = groups.place("memory") {
            let read = if place.version == GroupVersion::V1 { version_1 } else { version_2 };
            limits.extend(place.upwards().flat_map(|folder| read(files, folder)));
        }
        Self(limits)
    }

    /// Those that control groups set.
    pub fn of_groups(&self) -> Self {
        Self(self.0.iter().filter(|limit| limit.set_by != LimitSetter::Machine).cloned().collect())
    }

    /// The lowest limit; none if the system says of none.
    pub fn lowest(&self) -> Option<&MemoryLimit> {
        self.0.iter().min_by_key(|limit| limit.bytes)
    }

    /// The limit that is reached first as more memory is used; none if the system says of none.
    pub fn tightest(&self) -> Option<&MemoryLimit> {
        self.0.iter().min_by_key(|limit| limit.spare())
    }
}

impl MemoryLimit {
    /// How many bytes may be made present before the limit comes too near: the kernel kills at the limit, and a process that
    /// watches it sees the use of others a little late.
    pub fn spare(&self) -> u64 {
        self.left.saturating_sub(self.reserve())
    }

    /// How many of these, and of what is kept free besides, are for clients that come.
    pub fn spare_for_clients(&self) -> u64 {
        self.left.saturating_sub(self.reserve() / 2)
    }

    /// How many bytes are kept free below the limit.
    pub fn reserve(&self) -> u64 {
        (self.bytes / 16).min(RESERVE_MAX)
    }
}

fn machine(files: &Files<'_>) -> Option<MemoryLimit> {
    let meminfo = files.text("/proc/meminfo")?;
    let size = |key| quantity::parse_size(field(&meminfo, key)?);
    let bytes = size("MemTotal:")?;
    Some(MemoryLimit { bytes, left: size("MemAvailable:").unwrap_or(bytes), set_by: LimitSetter::Machine })
}

/// A limit in `file`, in a group that uses `used` bytes.
fn limit(file: String, bytes: u64, used: u64) -> MemoryLimit {
    MemoryLimit { bytes, left: bytes.saturating_sub(used), set_by: LimitSetter::Cgroup { file } }
}

fn version_1(files: &Files<'_>, folder: &str) -> Vec<MemoryLimit> {
    let stat_file = format!("{folder}/memory.stat");
    let stat = files.text(&stat_file).unwrap_or_default();
    let used = files.value(&format!("{folder}/memory.usage_in_bytes")).unwrap_or(0);
    let used = without_cache(used, &stat, ["total_active_file ", "total_inactive_file "]);
    let own_file = format!("{folder}/memory.limit_in_bytes");
    let own = files.value(&own_file);
    // A container does not see the groups around it, but is told the lowest limit among them.
    let around = field(&stat, "hierarchical_memory_limit ").and_then(|text| text.parse().ok());
    let around = around.filter(|around| own.is_none_or(|own| *around < own));
    [(own_file, own), (stat_file, around)]
        .into_iter()
        .filter_map(|(file, bytes)| Some((file, bytes.filter(|bytes| *bytes < UNLIMITED_FROM)?)))
        .map(|(file, bytes)| limit(file, bytes, used))
        .collect()
}

fn version_2(files: &Files<'_>, folder: &str) -> Vec<MemoryLimit> {
    let stat = files.text(&format!("{folder}/memory.stat")).unwrap_or_default();
    let used = files.value(&format!("{folder}/memory.current")).unwrap_or(0);
    let used = without_cache(used, &stat, ["active_file ", "inactive_file "]);
    // Above `memory.high` the kernel kills no process, but makes all of them wait until there is less: no place to be either.
    ["memory.max", "memory.high"]
        .into_iter()
        .filter_map(|name| {
            let file = format!("{folder}/{name}");
            // No limit is written as `max`.
            let bytes = files.value(&file)?;
            Some(limit(file, bytes, used))
        })
        .collect()
}

/// What is used besides the pages of files, which the kernel drops when it needs them. Shared memory is not among these.
fn without_cache(used: u64, stat: &str, lists: [&str; 2]) -> u64 {
    let pages = |list| field(stat, list).and_then(|text| text.parse().ok()).unwrap_or(0u64);
    lists.into_iter().map(pages).fold(used, u64::saturating_sub)
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = quantity::bytes(self.bytes);
        match &self.set_by {
            LimitSetter::Machine => write!(f, "the {bytes} of this machine"),
            LimitSetter::Cgroup { file } => {
                write!(f, "the {bytes} that the memory cgroup of this process allows ({file})")
            }
        }
    }
}

#[cfg(test)]
mod tests;
