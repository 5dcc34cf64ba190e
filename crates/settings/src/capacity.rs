//! How much of a machine's memory may be used.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{ByteSize, Percent};

/// An amount of memory: so many bytes, or a share of what this process can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many bytes.
    Bytes(ByteSize),
    /// A share of the machine's memory, or of its control group's limit where that is lower.
    Share(Percent),
}

impl Capacity {
    /// In bytes, on this machine.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Bytes(ByteSize(bytes)) => bytes,
            Self::Share(share) => share.of(memory_bytes()),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => bytes.fmt(f),
            Self::Share(share) => share.fmt(f),
        }
    }
}

/// How much memory this process can have.
fn memory_bytes() -> u64 {
    let machine = rustix::system::sysinfo();
    let total = u64::from(machine.mem_unit).saturating_mul(machine.totalram);
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let limit = group.and_then(|group| group_limit(Path::new("/sys/fs/cgroup"), Path::new(group)));
    limit.map_or(total, |limit| limit.min(total))
}

/// The lowest limit of a control group and those around it.
fn group_limit(root: &Path, group: &Path) -> Option<u64> {
    let limit = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
    group.ancestors().filter_map(|group| limit(root.join(group).join("memory.max"))).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Folder;

    #[test]
    fn a_share_is_of_what_this_process_can_have() {
        let half = Capacity::Share(Percent::from_percent(50)).bytes();
        assert!(half > 0 && half <= rustix::system::sysinfo().totalram / 2);
    }

    #[test]
    fn the_lowest_limit_counts() {
        let root = Folder::new();
        root.write("memory.max", "max\n");
        root.write("a/memory.max", "4096\n");
        root.write("a/b/memory.max", "8192\n");
        assert_eq!(group_limit(root.path(), Path::new("a/b")), Some(4096));
        assert_eq!(group_limit(root.path(), Path::new("other")), None);
    }
}
