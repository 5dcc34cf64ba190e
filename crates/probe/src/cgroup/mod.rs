//! What the control groups of this process allow.

use outboard_limits::{
    Allowance, Files, GroupFolder, GroupVersion, Groups, LimitSetter, ProcessorLimits, show_bytes,
};
use serde::Serialize;

use crate::finding::{Area, Finding, FindingState};
use crate::user::User;

/// What the control groups of this process allow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cgroup {
    /// Which kind of control groups rules processors and memory; none if none can be seen.
    pub version: Option<GroupVersion>,
    /// The smallest memory limit from this process's group upwards, in bytes; none is unlimited.
    pub memory_limit: Option<u64>,
    /// What is left of the memory that these groups allow, in bytes, where pages of files that can be dropped are not
    /// counted as used; none is unlimited.
    pub memory_left: Option<u64>,
    /// The smallest processor quota from this process's group upwards, in cores; none is unlimited.
    pub cpu_quota: Option<f64>,
    /// How many threads can run all the time, by the quota and by the affinity mask.
    pub threads: usize,
    /// Whether an agent can be given a quota of its own.
    pub child_quota: ChildQuota,
    #[serde(skip)]
    allowance: Allowance,
}

/// Whether a group with a processor quota can be made below that of this process. This is read from permissions and
/// settings; no group is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "possible", rename_all = "snake_case")]
pub enum ChildQuota {
    /// Yes.
    Now {
        /// The folder to make it in.
        parent: String,
    },
    /// Yes, when all processes of this group have moved into groups below it, where they may as well be.
    AfterMoving {
        /// The folder of this group.
        parent: String,
    },
    /// No.
    Never {
        /// Why not.
        why: String,
    },
}

impl Cgroup {
    pub(crate) fn probe(files: &Files<'_>) -> Self {
        let groups = Groups::read(files);
        let (cpu, memory) = (groups.place("cpu"), groups.place("memory"));
        let allowance = Allowance::read(files);
        let by_groups = allowance.memory.of_groups();
        Self {
            version: memory.as_ref().or(cpu.as_ref()).map(|place| place.version),
            memory_limit: by_groups.lowest().map(|limit| limit.bytes),
            memory_left: by_groups.tightest().map(|limit| limit.left),
            cpu_quota: allowance.processors.quota.as_ref().map(|quota| quota.cores),
            threads: allowance.processors.threads(),
            child_quota: match &cpu {
                Some(place) if place.version == GroupVersion::V1 => child_quota_v1(files, place),
                Some(place) => child_quota_v2(files, place),
                None => never("no control groups with a cpu controller are mounted"),
            },
            allowance,
        }
    }

    /// What it means for Outboard.
    pub fn findings(&self) -> Vec<Finding> {
        let version = match self.version {
            Some(GroupVersion::V1) => "1, a hierarchy for each controller",
            Some(GroupVersion::V2) => "2",
            None => "none mounted",
        };
        let version = Finding::new(Area::Cgroup, "version", FindingState::Good, version);
        vec![version, self.memory_finding(), self.quota_finding(), self.child_finding()]
    }

    fn memory_finding(&self) -> Finding {
        let finding = |detail| Finding::new(Area::Cgroup, "memory limit", FindingState::Good, detail);
        let by_groups = self.allowance.memory.of_groups();
        match by_groups.tightest().map(|limit| (limit, &limit.set_by)) {
            Some((limit, LimitSetter::Cgroup { file })) => {
                let (bytes, left) = (show_bytes(limit.bytes), show_bytes(limit.left));
                let detail = format!("{bytes} by {file}, {left} left: what is used here must fit");
                let fix = format!("raise the limit in {file}, or end what uses the memory of this group");
                finding(detail).limited_unless(limit.spare() > 0, fix)
            }
            _ => finding("unlimited".to_owned()),
        }
    }

    fn quota_finding(&self) -> Finding {
        let ProcessorLimits { quota, .. } = &self.allowance.processors;
        let detail = match quota {
            Some(quota) => {
                let spin =
                    if self.allowance.processors.can_spin() { "look for work" } else { "sleep at once" };
                let (cores, file) = (quota.cores, &quota.file);
                format!("{cores:.2} cores by {file}, for all threads together: those that wait {spin}")
            }
            None => "unlimited".to_owned(),
        };
        let is_whole = quota.as_ref().is_none_or(|quota| quota.cores >= 1.0);
        Finding::new(Area::Cgroup, "processor quota", FindingState::Good, detail)
            .limited_unless(is_whole, "give the group a whole core: less is spent before an answer arrives")
    }

    fn child_finding(&self) -> Finding {
        let detail = match &self.child_quota {
            ChildQuota::Now { parent } => format!("can be set in a group below {parent}"),
            ChildQuota::AfterMoving { parent } => {
                format!("can be set below {parent}, when its processes have moved into groups there")
            }
            ChildQuota::Never { why } => format!("{why}; an agent is slowed by nice instead"),
        };
        let is_possible = !matches!(self.child_quota, ChildQuota::Never { .. });
        let fix = match User::of_this_process() {
            User::Root => {
                "let the container write its control groups: docker run --cgroupns=private --privileged"
            }
            User::Other { .. } => "run as root, or under: systemd-run --user --scope -p Delegate=yes",
        };
        Finding::new(Area::Cgroup, "agent quota", FindingState::Good, detail).limited_unless(is_possible, fix)
    }
}

fn never(why: impl Into<String>) -> ChildQuota {
    ChildQuota::Never { why: why.into() }
}

fn child_quota_v1(files: &Files<'_>, GroupFolder { folder, .. }: &GroupFolder) -> ChildQuota {
    if files.text(&format!("{folder}/cpu.cfs_quota_us")).is_none() {
        return never("this kernel has no quotas (CONFIG_CFS_BANDWIDTH)");
    }
    if !files.is_writable(folder) {
        return never(format!("{folder} may not be written"));
    }
    ChildQuota::Now { parent: folder.clone() }
}

fn child_quota_v2(files: &Files<'_>, GroupFolder { folder, .. }: &GroupFolder) -> ChildQuota {
    let has_cpu = |file: &str| {
        let text = files.text(&format!("{folder}/{file}")).unwrap_or_default();
        text.split_whitespace().any(|controller| controller == "cpu")
    };
    if !has_cpu("cgroup.controllers") {
        return never("the cpu controller is not given to this process's group");
    }
    if !files.is_writable(folder) {
        return never(format!("{folder} may not be written"));
    }
    if has_cpu("cgroup.subtree_control") {
        return ChildQuota::Now { parent: folder.clone() };
    }
    if !files.is_writable(&format!("{folder}/cgroup.subtree_control")) {
        return never(format!("{folder} does not hand the cpu controller on"));
    }
    // Only the topmost group of all may have processes beside groups with controllers; it has no type.
    if files.text(&format!("{folder}/cgroup.type")).is_none() {
        ChildQuota::Now { parent: folder.clone() }
    } else {
        ChildQuota::AfterMoving { parent: folder.clone() }
    }
}

#[cfg(test)]
mod tests;
