//! Names that nobody else uses, and what must not be left under them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::outboard;
use crate::random::Random;

/// In the environment of every process that a test starts: whose it is.
const MARK: &str = "PROOF_MARK";

/// Where a test's processes may leave things, and how they are known.
#[derive(Debug)]
pub struct Place {
    mark: String,
    folder: PathBuf,
    next: AtomicU32,
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

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Place {
    /// Looks around before anything is started.
    ///
    /// # Panics
    ///
    /// If the temporary folder cannot be written to.
    #[must_use]
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let id = std::process::id();
        let salt = Random::new(u64::from(id) << 32 | u64::from(number)).next() as u32;
        let mark = format!("proof-{id}-{number}-{salt:08x}");
        let folder = std::env::temp_dir().join(&mark);
        std::fs::create_dir(&folder).expect("the temporary folder can be written to");
        Self { mark, folder, next: AtomicU32::new(0), shared_memory: names_in_shared_memory() }
    }

    /// A socket without a file that nobody listens at.
    #[must_use]
    pub fn socket(&self) -> String {
        format!("unix:@{}-{}", self.mark, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A socket with a file.
    #[must_use]
    pub fn socket_file(&self) -> String {
        format!("unix:{}/{}", self.folder.display(), self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// A folder for a test's files, which has to be gone in the end.
    ///
    /// # Panics
    ///
    /// If the temporary folder cannot be written to.
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        let folder = self.folder.join(name);
        std::fs::create_dir(&folder).expect("the temporary folder can be written to");
        folder
    }

    /// The program, known as this test's.
    #[must_use]
    pub fn outboard(&self, arguments: &[&str]) -> Command {
        let mut command = outboard(arguments);
        self.mark(&mut command);
        command
    }

    /// Makes a process known as this test's.
    pub fn mark(&self, command: &mut Command) {
        command.env(MARK, &self.mark).env("TMPDIR", &self.folder);
    }

    /// Looks around again once all processes should have ended.
    ///
    /// # Panics
    ///
    /// If anything is left.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let none = BTreeSet::<String>::new();
        assert_eq!(names_in(&self.folder), none, "left in the temporary folder");
        let added: BTreeSet<_> = names_in_shared_memory().difference(&self.shared_memory).cloned().collect();
        assert_eq!(added, none, "left in the folder of shared memory");
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let ours: Vec<_> = sockets.lines().filter(|line| line.contains(&self.mark)).collect();
        assert_eq!(ours, Vec::<&str>::new(), "left among the sockets");
        assert_eq!(self.processes(), none, "left among the processes");
    }

    fn processes(&self) -> BTreeSet<String> {
        let entry = format!("{MARK}={}", self.mark).into_bytes();
        let is_ours = |process: &String| {
            let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == entry)
        };
        names_in(Path::new("/proc")).into_iter().filter(is_ours).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Whatever a failed test left there goes too.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
