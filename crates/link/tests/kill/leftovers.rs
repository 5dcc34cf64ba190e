//! What killed processes must not leave behind.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::spec::Transport;

/// What there was before, and where the children may put things.
pub(crate) struct Leftovers {
    folder: PathBuf,
    mark: String,
    shared_memory: BTreeSet<String>,
}

fn names_in(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeSet::new() };
    entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Other programs use this folder too; ours are known by their name.
fn names_in_shared_memory() -> BTreeSet<String> {
    let names = names_in(Path::new("/dev/shm")).into_iter();
    names.filter(|name| name.contains("outboard")).collect()
}

impl Leftovers {
    /// Looks around before anything is started.
    pub(crate) fn before() -> Self {
        let mark = format!("outboard-kill-{}-{:x}", std::process::id(), fastrand::u64(..));
        let folder = std::env::temp_dir().join(&mark);
        std::fs::create_dir(&folder).expect("the temporary folder can be written to");
        Self { folder, mark, shared_memory: names_in_shared_memory() }
    }

    /// The children's temporary folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a listener is told to listen.
    pub(crate) fn address(&self, transport: Transport, seed: u64) -> String {
        match transport {
            Transport::Shm => format!("unix:@{}-{seed:x}", self.mark),
            Transport::Tcp => "tcp:127.0.0.1:0".to_owned(),
            Transport::Ofi => "ofi:127.0.0.1:0".to_owned(),
        }
    }

    /// Looks around again once all processes have ended.
    pub(crate) fn assert_none(&self) {
        assert_eq!(names_in(&self.folder), BTreeSet::new(), "left in the temporary folder");
        let added: Vec<_> = names_in_shared_memory().difference(&self.shared_memory).cloned().collect();
        assert_eq!(added, Vec::<String>::new(), "left in the folder of shared memory");
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let ours: Vec<_> = sockets.lines().filter(|line| line.contains(&self.mark)).collect();
        assert_eq!(ours, Vec::<&str>::new(), "left among the sockets");
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        // Whatever a failed test left there goes too.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
