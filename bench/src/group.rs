//! A memory cgroup for the processes that are measured.

use std::fs;
use std::path::{Path, PathBuf};

use crate::BenchError;

/// Begins the name of every group of ours.
const PREFIX: &str = "outboard-bench-";

/// A group of processes that together may use so much memory, page cache included. It is removed when dropped.
pub(crate) struct MemoryGroup {
    path: PathBuf,
    /// The files of this version of the hierarchy: the limit, and the most that was used.
    limit: &'static str,
    peak: &'static str,
}

impl MemoryGroup {
    /// Makes a group, in whichever version of the hierarchy there is.
    pub(crate) fn create(name: &str) -> Result<Self, BenchError> {
        let name = format!("{PREFIX}{}-{name}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/memory");
        let group = match first.is_dir() {
            true => Self {
                path: first.join(name),
                limit: "memory.limit_in_bytes",
                peak: "memory.max_usage_in_bytes",
            },
            false => Self {
                path: Path::new("/sys/fs/cgroup").join(name),
                limit: "memory.max",
                peak: "memory.peak",
            },
        };
        if let Some(above) = group.path.parent() {
            remove_what_is_left(above);
        }
        // One that a killed run has left behind is as good.
        if !group.path.is_dir() {
            fs::create_dir(&group.path).map_err(|source| refused("mkdir", source))?;
        }
        Ok(group)
    }

    /// From now on its processes may use so much.
    pub(crate) fn limit(&self, bytes: u64) -> Result<(), BenchError> {
        fs::write(self.path.join(self.limit), bytes.to_string()).map_err(|source| refused(self.limit, source))
    }

    /// The most that its processes have used at once.
    pub(crate) fn peak(&self) -> Result<u64, BenchError> {
        let text =
            fs::read_to_string(self.path.join(self.peak)).map_err(|source| refused(self.peak, source))?;
        Ok(text.trim().parse().unwrap_or(u64::MAX))
    }

    /// Puts a process into it.
    pub(crate) fn take(&self, process: u32) -> Result<(), BenchError> {
        fs::write(self.path.join("cgroup.procs"), process.to_string())
            .map_err(|source| refused("cgroup.procs", source))
    }
}

/// Removes the groups of runs that were killed.
fn remove_what_is_left(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            // One that still has processes stays until the next run.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn refused(what: &str, source: std::io::Error) -> BenchError {
    BenchError::NoGroup { what: what.to_owned(), source }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its processes have ended; the kernel may need a moment to notice.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
    }
}
