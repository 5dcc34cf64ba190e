//! Control groups with limits, for the processes of a test.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use outboard_limits::{GroupVersion, Groups};

use crate::{PATIENCE, socket};

/// A control group made for a test. Dropping it removes it, once its processes have ended.
pub struct Group {
    version: GroupVersion,
    folder: PathBuf,
}

impl Group {
    /// A group whose processes may use so much memory together. Where none can be made, says why.
    pub fn of_memory(bytes: u64) -> Option<Self> {
        Self::make("memory", |version| match version {
            GroupVersion::V1 => vec![("memory.limit_in_bytes", bytes.to_string())],
            GroupVersion::V2 => vec![("memory.max", bytes.to_string()), ("memory.swap.max", "0".to_owned())],
        })
    }

    /// A group whose processes may use so many percent of a processor together.
    pub fn of_processors(percent: u64) -> Option<Self> {
        let (quota, period) = (percent * 1000, 100_000);
        Self::make("cpu", |version| match version {
            GroupVersion::V1 => {
                vec![("cpu.cfs_period_us", period.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
            }
            GroupVersion::V2 => vec![("cpu.max", format!("{quota} {period}"))],
        })
    }

    fn make(controller: &str, limits: impl Fn(GroupVersion) -> Vec<(&'static str, String)>) -> Option<Self> {
        let Some(place) = Groups::of_this_process().place(controller) else {
            println!("skipped: no control groups with the {controller} controller are mounted");
            return None;
        };
        let top = PathBuf::from(&place.top);
        if place.version == GroupVersion::V2 {
            // Refused where the topmost group that is seen here has processes; making the limit fails then.
            let _ = fs::write(top.join("cgroup.subtree_control"), format!("+{controller}"));
        }
        let folder = top.join(socket().replace("unix:@", ""));
        if let Err(error) = fs::create_dir(&folder) {
            println!("skipped: no control group can be made in {}: {error}", top.display());
            return None;
        }
        let group = Self { version: place.version, folder };
        for (file, value) in limits(place.version) {
            let written = fs::write(group.folder.join(file), value);
            // A kernel without swap has no limit for it.
            if let Err(error) = written
                && file != "memory.swap.max"
            {
                println!("skipped: {file} of a control group cannot be written: {error}");
                return None;
            }
        }
        Some(group)
    }

    /// The same command, run in this group from its first instruction.
    pub fn around(&self, command: &Command) -> Command {
        self.around_with(command, &[])
    }

    /// The same as a container has it: with namespaces of its own, in which this group is at the top. None, and says why,
    /// where there are none to be had.
    pub fn around_in_namespace(&self, command: &Command) -> Option<Command> {
        let kind = match self.version {
            GroupVersion::V1 => "cgroup -o memory",
            GroupVersion::V2 => "cgroup2",
        };
        let top = self.folder.parent().expect("the folder that it was made in").display();
        let remount = format!("umount -l {top} && mount -t {kind} none {top}");
        let within = |then: &str| format!("{remount} && {then}");
        let unshare = ["unshare", "--cgroup", "--mount", "sh", "-c"];
        let can = self
            .around_with(&Command::new("true"), &[&unshare[..], &[&within("exec \"$0\"")]].concat())
            .output();
        if !can.as_ref().is_ok_and(|tried| tried.status.success()) {
            println!("skipped: no namespace with a mount of its own for control groups: {can:?}");
            return None;
        }
        Some(self.around_with(command, &[&unshare[..], &[&within("exec \"$0\" \"$@\"")]].concat()))
    }

    fn around_with(&self, command: &Command, through: &[&str]) -> Command {
        let mut around = Command::new("/bin/sh");
        around.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.folder.join("cgroup.procs"));
        around.args(through).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => around.env(name, value),
                None => around.env_remove(name),
            };
        }
        around
    }

    /// How many bytes its processes use.
    ///
    /// # Panics
    ///
    /// If the group does not say.
    pub fn memory_used(&self) -> u64 {
        let name = match self.version {
            GroupVersion::V1 => "memory.usage_in_bytes",
            GroupVersion::V2 => "memory.current",
        };
        let text = fs::read_to_string(self.folder.join(name)).expect("a group says what it uses");
        text.trim().parse().expect("a number")
    }

    /// The file that sets its limit to memory.
    pub fn memory_file(&self) -> String {
        let name = match self.version {
            GroupVersion::V1 => "memory.limit_in_bytes",
            GroupVersion::V2 => "memory.max",
        };
        self.folder.join(name).display().to_string()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < until {
            // tidy: allow(sleep) the kernel frees a group some time after its last process and tells nobody
            thread::sleep(Duration::from_millis(10));
        }
    }
}
