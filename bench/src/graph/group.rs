//! A memory cgroup for the processes that are measured.

use std::fs;
use std::path::{Path, PathBuf};

use crate::BenchError;

/// A group of processes that may use so much memory, page cache included. It is removed when dropped.
pub(super) struct MemoryGroup {
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes a group with a limit, in whichever version of the hierarchy there is.
    pub(super) fn with_limit(bytes: u64) -> Result<Self, BenchError> {
        let name = format!("outboard-bench-{}", std::process::id());
        let refused = |what: String, error: std::io::Error| BenchError::NoGroup { what, source: error };
        let (path, limit) = match Path::new("/sys/fs/cgroup/memory").is_dir() {
            true => (Path::new("/sys/fs/cgroup/memory").join(name), "memory.limit_in_bytes"),
            false => (Path::new("/sys/fs/cgroup").join(name), "memory.max"),
        };
        // One that a killed run has left behind is as good.
        if !path.is_dir() {
            fs::create_dir(&path).map_err(|error| refused(path.display().to_string(), error))?;
        }
        let group = Self { path };
        fs::write(group.path.join(limit), bytes.to_string())
            .map_err(|error| refused(limit.to_owned(), error))?;
        Ok(group)
    }

    /// Puts a process into it.
    pub(super) fn take(&self, process: u32) -> Result<(), BenchError> {
        fs::write(self.path.join("cgroup.procs"), process.to_string())
            .map_err(|source| BenchError::NoGroup { what: "cgroup.procs".to_owned(), source })
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // Its processes have ended; the kernel may need a moment to notice.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}
