//! How many processors a process can keep busy.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::cores::CoreList;
use crate::files::{Files, field};
use crate::groups::{GroupVersion, Groups};

/// How many processors a process can keep busy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorLimits {
    /// The cores that its affinity mask allows, logical ones; none if the system does not say.
    pub allowed: CoreList,
    /// The lowest quota of its control group and those around it; none is no limit.
    pub quota: Option<ProcessorQuota>,
}

/// How much processor time the processes of a group may use together.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorQuota {
    /// As so many cores.
    pub cores: f64,
    /// The file that says so.
    pub file: String,
}

impl ProcessorLimits {
    /// Those of this process now.
    pub fn of_this_process() -> Self {
        let files = Files::of_this_machine();
        Self::read(&files, &Groups::read(&files))
    }

    /// Those of a process in these groups.
    pub fn read(files: &Files<'_>, groups: &Groups) -> Self {
        let status = files.text("/proc/self/status").unwrap_or_default();
        let allowed = field(&status, "Cpus_allowed_list:").and_then(|list| list.parse().ok());
        let quota = groups.place("cpu").and_then(|place| {
            let read = if place.version == GroupVersion::V1 { version_1 } else { version_2 };
            let quotas = place.upwards().filter_map(|folder| read(files, folder));
            quotas.min_by(|one, other| one.cores.total_cmp(&other.cores))
        });
        Self { allowed: allowed.unwrap_or_default(), quota }
    }

    /// How many threads can run all the time: as many as there are cores in the mask, and no more than the quota has whole
    /// ones, but at least one. A thread on a part of a core would stop all the others when the quota is used up.
    pub fn threads(&self) -> usize {
        let quota = self.quota.as_ref().map_or(usize::MAX, |quota| quota.cores as usize);
        self.allowed.len().min(quota).max(1)
    }

    /// Whether threads that look for work instead of sleeping take time from no other thread: with less than two cores in the
    /// quota, the thread that they wait for has none while they look.
    pub fn can_spin(&self) -> bool {
        self.quota.as_ref().is_none_or(|quota| quota.cores >= 2.0)
    }
}

impl fmt::Display for ProcessorLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.allowed.len(), &self.quota) {
            (0, None) => f.write_str("the system does not say how many cores there are"),
            (1, None) => f.write_str("this process may run on 1 core"),
            (cores, None) => write!(f, "this process may run on {cores} cores"),
            (_, Some(ProcessorQuota { cores, file })) if (*cores as usize) < self.allowed.len() => {
                write!(f, "the cpu cgroup of this process has a quota of {cores:.2} cores ({file})")
            }
            (cores, Some(_)) => write!(f, "this process may run on {cores} of the cores of its quota"),
        }
    }
}

/// `usual`, unless the quota of this process makes it too dear to look for work instead of sleeping. Read once.
pub fn spin(usual: Duration) -> Duration {
    static CAN_SPIN: OnceLock<bool> = OnceLock::new();
    let can_spin = *CAN_SPIN.get_or_init(|| ProcessorLimits::of_this_process().can_spin());
    if can_spin { usual } else { Duration::ZERO }
}

fn version_1(files: &Files<'_>, folder: &str) -> Option<ProcessorQuota> {
    let file = format!("{folder}/cpu.cfs_quota_us");
    // No quota is written as -1.
    let quota: u64 = files.value(&file)?;
    let period = files.value(&format!("{folder}/cpu.cfs_period_us"))?;
    Some(ProcessorQuota { cores: share(quota, period)?, file })
}

fn version_2(files: &Files<'_>, folder: &str) -> Option<ProcessorQuota> {
    let file = format!("{folder}/cpu.max");
    let text = files.text(&file)?;
    // Quota and period in microseconds, the quota of an unlimited group being `max`.
    let (quota, period) = text.trim().split_once(' ')?;
    Some(ProcessorQuota { cores: share(quota.parse().ok()?, period.parse().ok()?)?, file })
}

fn share(quota_us: u64, period_us: u64) -> Option<f64> {
    (period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::with_files;

    const V1: (&str, &str) = (
        "/proc/self/mountinfo",
        "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n",
    );
    const V2: (&str, &str) = ("/proc/self/mountinfo", "30 23 0:26 / /cg rw,nosuid - cgroup2 cgroup2 rw\n");
    const FOUR_CORES: (&str, &str) = ("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2,5\n");

    fn read(files: &[(&str, &str)]) -> ProcessorLimits {
        with_files(files, |files| ProcessorLimits::read(files, &Groups::read(files)))
    }

    fn cores(limits: &ProcessorLimits) -> Option<f64> {
        limits.quota.as_ref().map(|quota| quota.cores)
    }

    #[test]
    fn without_a_quota_the_mask_decides() {
        let limits = read(&[FOUR_CORES]);
        assert_eq!((limits.threads(), limits.can_spin()), (4, true));
        assert_eq!(limits.to_string(), "this process may run on 4 cores");
        assert_eq!(read(&[]).threads(), 1);
    }

    #[test]
    fn the_lowest_quota_on_the_way_up_counts_in_version_2() {
        let group = ("/proc/self/cgroup", "0::/a/b\n");
        let with =
            |own, above| read(&[FOUR_CORES, V2, group, ("/cg/a/b/cpu.max", own), ("/cg/a/cpu.max", above)]);
        let limits = with("max 100000\n", "250000 100000\n");
        assert_eq!((cores(&limits), limits.threads(), limits.can_spin()), (Some(2.5), 2, true));
        assert!(limits.to_string().contains("2.50 cores (/cg/a/cpu.max)"), "{limits}");
        let limits = with("30000 100000\n", "250000 100000\n");
        assert_eq!((cores(&limits), limits.threads(), limits.can_spin()), (Some(0.3), 1, false));
        let limits = with("800000 100000\n", "max 100000");
        assert_eq!(
            (limits.threads(), &*limits.to_string()),
            (4, "this process may run on 4 of the cores of its quota")
        );
    }

    #[test]
    fn in_a_container_the_group_is_at_the_top() {
        let limits =
            read(&[FOUR_CORES, V2, ("/proc/self/cgroup", "0::/\n"), ("/cg/cpu.max", "150000 100000\n")]);
        assert_eq!((cores(&limits), limits.threads(), limits.can_spin()), (Some(1.5), 1, false));
    }

    #[test]
    fn the_lowest_quota_on_the_way_up_counts_in_version_1() {
        let files = [
            FOUR_CORES,
            V1,
            ("/proc/self/cgroup", "1:cpu,cpuacct:/a\n0::/\n"),
            ("/cg/cpu/a/cpu.cfs_quota_us", "-1\n"),
            ("/cg/cpu/a/cpu.cfs_period_us", "100000\n"),
            ("/cg/cpu/cpu.cfs_quota_us", "100000\n"),
            ("/cg/cpu/cpu.cfs_period_us", "50000\n"),
        ];
        let limits = read(&files);
        assert_eq!((cores(&limits), limits.threads()), (Some(2.0), 2));
    }

    #[test]
    fn what_is_no_quota_is_none() {
        for none in ["max 100000\n", "", "50000", "50000 0", "x y", "-1 100000", "max", "\0 1"] {
            let files = [FOUR_CORES, V2, ("/proc/self/cgroup", "0::/\n"), ("/cg/cpu.max", none)];
            assert_eq!(cores(&read(&files)), None, "{none}");
        }
    }

    #[test]
    fn this_process_can_run() {
        let here = ProcessorLimits::of_this_process();
        assert!(here.threads() >= 1, "{here:?}");
        let std = std::thread::available_parallelism().unwrap();
        println!("{} threads, {std} by the standard library: {here}", here.threads());
    }
}
