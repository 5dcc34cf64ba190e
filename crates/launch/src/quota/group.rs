//! A control group with a limit on processor time.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use outboard_limits::GroupVersion;

use super::Quota;
use super::launcher::Launcher;

/// The kernel's own default: a limited process waits at most this long for its next share.
const PERIOD_US: u64 = 100_000;

/// How long a group whose processes have just ended may still count as occupied.
const REMOVE_WITHIN: Duration = Duration::from_millis(500);

static MADE: AtomicU32 = AtomicU32::new(0);

/// An existing group in which one could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) version: GroupVersion,
    pub(super) path: PathBuf,
}

/// A control group made here. Dropping it moves who is left in it back to the group around it and removes it.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes a group in `folder` that holds `pid` to `quota`. A failure leaves nothing behind.
    pub(super) fn with(folder: &Folder, quota: Quota, pid: u32) -> io::Result<Self> {
        let group = Self::make(folder)?;
        group.limit(folder.version, quota)?;
        write(&group.path, "cgroup.procs", pid)?;
        Ok(group)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn make(folder: &Folder) -> io::Result<Self> {
        if folder.version == GroupVersion::V2 {
            let file = folder.path.join("cgroup.subtree_control");
            let controllers = fs::read_to_string(file)?;
            if !controllers.split_ascii_whitespace().any(|controller| controller == "cpu") {
                return Err(io::Error::new(ErrorKind::Unsupported, "its cpu controller is not enabled"));
            }
        }
        let launcher =
            Launcher::this().ok_or_else(|| io::Error::other("/proc does not show this process"))?;
        let path = folder.path.join(launcher.name(MADE.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    fn limit(&self, version: GroupVersion, quota: Quota) -> io::Result<()> {
        let share_us = quota.per_period(PERIOD_US);
        match version {
            GroupVersion::V2 => write(&self.path, "cpu.max", format_args!("{share_us} {PERIOD_US}")),
            GroupVersion::V1 => {
                write(&self.path, "cpu.cfs_period_us", PERIOD_US)?;
                write(&self.path, "cpu.cfs_quota_us", share_us)
            }
        }
    }

    fn release_members(&self) {
        let Some(around) = self.path.parent() else { return };
        let members = fs::read_to_string(self.path.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines() {
            let _ = write(around, "cgroup.procs", pid);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.release_members();
        let until = Instant::now() + REMOVE_WITHIN;
        while let Err(error) = fs::remove_dir(&self.path)
            && error.kind() == ErrorKind::ResourceBusy
            && Instant::now() < until
        {
            // tidy: allow(sleep) the kernel frees a group some time after its last process and gives no sign
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Removes the groups in `folder` whose launchers were killed before they could.
pub(super) fn remove_abandoned(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let launcher = name.to_str().and_then(Launcher::of_name);
        if launcher.is_some_and(|launcher| !launcher.is_alive()) {
            // Refused while a process is in it, and then it is in use.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Control files take a value in one write.
fn write(folder: &Path, file: &str, value: impl std::fmt::Display) -> io::Result<()> {
    let path = folder.join(file);
    let written = fs::OpenOptions::new().write(true).open(&path);
    let written = written.and_then(|mut file| io::Write::write_all(&mut file, value.to_string().as_bytes()));
    written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
