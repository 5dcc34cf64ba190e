//! How much memory a process can have at most, and of which nodes.

use core::fmt;

use crate::cgroup::Cgroup;
use crate::cores::CoreList;
use crate::files::Files;
use crate::memory::Memory;
use crate::quantity;

/// The most memory that this process can have, and what sets that limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// In bytes.
    pub bytes: u64,
    /// What sets it.
    pub set_by: LimitSetter,
}

/// What sets a limit to a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSetter {
    /// The machine has no more.
    Machine,
    /// The control group of the process, or one above it.
    Cgroup,
}

impl MemoryLimit {
    /// That of this process now; none if the system does not say.
    pub fn of_this_process() -> Option<Self> {
        Self::read(&Files::of_this_machine())
    }

    fn read(files: &Files<'_>) -> Option<Self> {
        let limit = |bytes, set_by| Self { bytes, set_by };
        let machine = Memory::probe(files).total.map(|bytes| limit(bytes, LimitSetter::Machine));
        let cgroup = Cgroup::probe(files).memory_limit.map(|bytes| limit(bytes, LimitSetter::Cgroup));
        [machine, cgroup].into_iter().flatten().min_by_key(|limit| limit.bytes)
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = quantity::bytes(self.bytes);
        match self.set_by {
            LimitSetter::Machine => write!(f, "the {bytes} of this machine"),
            LimitSetter::Cgroup => write!(f, "the {bytes} that the memory cgroup of this process allows"),
        }
    }
}

/// The NUMA nodes of this machine that have memory; none if the system does not say.
pub fn memory_nodes() -> Vec<u32> {
    nodes(&Files::of_this_machine())
}

fn nodes(files: &Files<'_>) -> Vec<u32> {
    const FOLDER: &str = "/sys/devices/system/node";
    let list = |file: &str| files.value::<CoreList>(&format!("{FOLDER}/{file}"));
    let nodes = list("has_memory").or_else(|| list("online")).unwrap_or_default();
    nodes.as_slice().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::sample::with_files;

    const MEMINFO: (&str, &str) = ("/proc/meminfo", "MemTotal: 1048576 kB\n");
    const GROUP: (&str, &str) = ("/proc/self/cgroup", "0::/a/b\n");
    const MOUNT: (&str, &str) = (
        "/proc/self/mountinfo",
        "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
    );

    #[test]
    fn the_smaller_of_machine_and_group_is_the_limit() {
        assert_eq!(with_files(&[], MemoryLimit::read), None);
        let machine = with_files(&[MEMINFO], MemoryLimit::read);
        assert_eq!(machine, Some(MemoryLimit { bytes: 1 << 30, set_by: LimitSetter::Machine }));
        let grouped = |max| {
            let files = [MEMINFO, GROUP, MOUNT, ("/sys/fs/cgroup/a/memory.max", max)];
            with_files(&files, MemoryLimit::read).unwrap()
        };
        assert_eq!(grouped("max\n").set_by, LimitSetter::Machine);
        assert_eq!(grouped("8589934592\n").set_by, LimitSetter::Machine);
        let small = grouped("268435456\n");
        assert_eq!((small.bytes, small.set_by), (256 << 20, LimitSetter::Cgroup));
        assert_eq!(small.to_string(), "the 256 MiB that the memory cgroup of this process allows");
    }

    #[test]
    fn nodes_with_memory_come_before_nodes_that_run() {
        let online = ("/sys/devices/system/node/online", "0-2\n");
        let with_memory = ("/sys/devices/system/node/has_memory", "0,2\n");
        assert_eq!(with_files(&[online, with_memory], nodes), [0, 2]);
        assert_eq!(with_files(&[online], nodes), [0, 1, 2]);
        assert!(with_files(&[], nodes).is_empty());
    }
}
