//! What the control groups of this process allow.

mod membership;

use serde::Serialize;

use crate::files::Files;
use crate::finding::{Area, Finding, State};
use crate::quantity;
use membership::Place;

/// What the control groups of this process allow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cgroup {
    /// Which kind of control groups rules processors and memory.
    pub version: Version,
    /// The smallest memory limit from this process's group upwards, in bytes; none is unlimited.
    pub memory_limit: Option<u64>,
    /// The smallest processor quota from this process's group upwards, in cores; none is unlimited.
    pub cpu_quota: Option<f64>,
    /// Whether an agent can be given a quota of its own.
    pub child_quota: ChildQuota,
}

/// Which kind of control groups rules processors and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all.
    V2,
    /// There are none, or none that can be seen.
    None,
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

/// Version 1 writes no limit as a number near 2⁶³.
const UNLIMITED_FROM: u64 = 1 << 60;

impl Cgroup {
    pub(crate) fn probe(files: &Files<'_>) -> Self {
        let groups = files.text("/proc/self/cgroup").unwrap_or_default();
        let mounts = files.text("/proc/self/mountinfo").unwrap_or_default();
        let cpu = membership::version_1(&groups, &mounts, "cpu");
        let memory = membership::version_1(&groups, &mounts, "memory");
        if cpu.is_some() || memory.is_some() {
            return Self {
                version: Version::V1,
                memory_limit: memory.and_then(|place| smallest(&place, |at| memory_v1(files, at))),
                cpu_quota: cpu.as_ref().and_then(|place| least(place, |at| quota_v1(files, at))),
                child_quota: child_quota_v1(files, cpu.as_ref()),
            };
        }
        match membership::version_2(&groups, &mounts) {
            Some(place) => Self {
                version: Version::V2,
                memory_limit: smallest(&place, |at| files.value(&format!("{at}/memory.max"))),
                cpu_quota: least(&place, |at| parse_cpu_max(&files.text(&format!("{at}/cpu.max"))?)),
                child_quota: child_quota_v2(files, &place),
            },
            None => Self {
                version: Version::None,
                memory_limit: None,
                cpu_quota: None,
                child_quota: ChildQuota::Never { why: "no control groups are mounted".to_owned() },
            },
        }
    }

    /// What it means for Outboard.
    pub fn findings(&self) -> Vec<Finding> {
        let good = |name: &str, detail| Finding::new(Area::Cgroup, name, State::Good, detail);
        let version = match self.version {
            Version::V1 => "1, a hierarchy for each controller",
            Version::V2 => "2",
            Version::None => "none mounted",
        };
        let memory = match self.memory_limit {
            Some(limit) => format!("{}: local buffers and caches must fit", quantity::bytes(limit)),
            None => "unlimited".to_owned(),
        };
        let quota = match self.cpu_quota {
            Some(cores) => format!("{cores:.2} cores, shared by all threads that spin"),
            None => "unlimited".to_owned(),
        };
        let is_whole = self.cpu_quota.is_none_or(|cores| cores >= 1.0);
        let quota = good("processor quota", quota)
            .limited_unless(is_whole, "give the group a whole core: less is spent before an answer arrives");
        vec![good("version", version.to_owned()), good("memory limit", memory), quota, self.child_finding()]
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
        let fix = "run as root, or under: systemd-run --user --scope -p Delegate=yes";
        Finding::new(Area::Cgroup, "agent quota", State::Good, detail).limited_unless(is_possible, fix)
    }
}

fn smallest(place: &Place, limit: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    place.upwards().filter_map(limit).min()
}

fn least(place: &Place, quota: impl Fn(&str) -> Option<f64>) -> Option<f64> {
    place.upwards().filter_map(quota).min_by(f64::total_cmp)
}

fn memory_v1(files: &Files<'_>, folder: &str) -> Option<u64> {
    files.value(&format!("{folder}/memory.limit_in_bytes")).filter(|limit| *limit < UNLIMITED_FROM)
}

fn quota_v1(files: &Files<'_>, folder: &str) -> Option<f64> {
    // No quota is written as -1.
    let quota: u64 = files.value(&format!("{folder}/cpu.cfs_quota_us"))?;
    let period: u64 = files.value(&format!("{folder}/cpu.cfs_period_us"))?;
    (period > 0).then(|| quota as f64 / period as f64)
}

/// Reads `cpu.max`: quota and period in microseconds, the quota of an unlimited group being `max`.
fn parse_cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota as f64 / period as f64)
}

fn never(why: impl Into<String>) -> ChildQuota {
    ChildQuota::Never { why: why.into() }
}

fn child_quota_v1(files: &Files<'_>, cpu: Option<&Place>) -> ChildQuota {
    let Some(Place { folder, .. }) = cpu else { return never("the cpu controller is not mounted") };
    if files.text(&format!("{folder}/cpu.cfs_quota_us")).is_none() {
        return never("this kernel has no quotas (CONFIG_CFS_BANDWIDTH)");
    }
    if !files.is_writable(folder) {
        return never(format!("{folder} may not be written"));
    }
    ChildQuota::Now { parent: folder.clone() }
}

fn child_quota_v2(files: &Files<'_>, Place { folder, .. }: &Place) -> ChildQuota {
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
