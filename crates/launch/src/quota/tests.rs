//! Quotas on real processes. Where no control group may be made, the nice process is what is tested.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::getpriority_process;

use super::*;

/// A process that waits for its input to end, killed when dropped.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        Self(Command::new("/bin/cat").stdin(Stdio::piped()).process_group(0).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn nice(&self) -> i32 {
        getpriority_process(Some(Pid::from_child(&self.0))).unwrap()
    }

    fn is_in(&self, group: &Path) -> bool {
        let members = fs::read_to_string(group.join("cgroup.procs")).unwrap();
        members.lines().any(|member| member == self.pid().to_string())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn quota() -> Quota {
    "30%".parse().unwrap()
}

fn shares(group: &Path) -> String {
    let read = |file: &str| fs::read_to_string(group.join(file)).ok();
    match read("cpu.max") {
        Some(both) => both.trim().to_owned(),
        None => {
            let parts = [read("cpu.cfs_quota_us").unwrap(), read("cpu.cfs_period_us").unwrap()];
            parts.map(|part| part.trim().to_owned()).join(" ")
        }
    }
}

#[test]
fn a_limited_process_is_in_a_group_with_its_share_and_the_group_goes_with_the_limit() {
    let process = Waiting::start();
    let limit = quota().apply(process.pid()).unwrap();
    let Some(group) = &limit.group else {
        assert!(limit.warning().unwrap().contains("not enforced"));
        return;
    };
    let path = group.path().to_owned();
    assert_eq!(limit.warning(), None);
    assert_eq!(limit.to_string(), format!("30% of a processor by control group {}", path.display()));
    assert_eq!(shares(&path), "30000 100000");
    assert!(process.is_in(&path));
    // Still running: it goes back where it came from, and the group goes all the same.
    drop(limit);
    assert!(!path.exists());
    assert!(process.is_in(path.parent().unwrap()));
}

#[test]
fn a_group_is_removed_after_its_process() {
    let process = Waiting::start();
    let limit = quota().apply(process.pid()).unwrap();
    let path = limit.group.as_ref().map(|group| group.path().to_owned());
    drop(process);
    drop(limit);
    assert!(path.is_none_or(|path| !path.exists()));
}

#[test]
fn groups_of_dead_launchers_are_removed_and_those_of_living_ones_kept() {
    let process = Waiting::start();
    let limit = quota().apply(process.pid()).unwrap();
    let Some(group) = &limit.group else { return };
    let folder = group.path().parent().unwrap();
    let abandoned = folder.join("outboard-4194304-1-0");
    fs::create_dir(&abandoned).unwrap();
    let again = quota().apply(process.pid()).unwrap();
    assert!(!abandoned.exists());
    assert!(group.path().exists());
    assert!(process.is_in(again.group.as_ref().unwrap().path()));
}

#[test]
fn without_a_group_the_process_is_made_nice_and_the_user_is_told() {
    let process = Waiting::start();
    let limit = quota().apply_in(&[], process.pid()).unwrap();
    assert_eq!(process.nice(), NICE);
    assert_eq!(limit.to_string(), "nice 19 instead of 30% of a processor");
    assert!(limit.warning().unwrap().contains("no control group with a cpu controller is mounted"));
}

#[test]
fn a_folder_that_cannot_be_used_is_named_and_left_as_it_was() {
    let process = Waiting::start();
    // Version 2 in name only: it has no controllers to read.
    let folder = Folder { version: GroupVersion::V2, path: "/proc/self".into() };
    let limit = quota().apply_in(std::slice::from_ref(&folder), process.pid()).unwrap();
    assert!(limit.warning().unwrap().contains("can be made in /proc/self: "), "{:?}", limit.warning());
    // Not a group at all: the folder made there is removed again.
    let plain = std::env::temp_dir().join(format!("outboard-quota-{}", std::process::id()));
    fs::create_dir(&plain).unwrap();
    let folder = Folder { version: GroupVersion::V1, path: plain.clone() };
    let limit = quota().apply_in(&[folder], process.pid()).unwrap();
    assert!(limit.warning().unwrap().contains("cpu.cfs_period_us"), "{:?}", limit.warning());
    // Only an empty folder can be removed.
    fs::remove_dir(&plain).unwrap();
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let gone = 4_194_304;
    assert!(matches!(quota().apply(gone), Err(QuotaError::Process { pid, .. }) if pid == gone));
}

#[test]
fn quotas_are_percentages() {
    assert_eq!("250 %".parse::<Quota>().unwrap().to_string(), "250%");
    for text in ["", "30", "%", "0%", "-1%", "1.5%", "100001%", "x%"] {
        assert!(text.parse::<Quota>().is_err(), "{text}");
    }
}
