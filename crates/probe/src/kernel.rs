//! The kernel, and what else it offers.

use outboard_limits::Files;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
use serde::Serialize;

use crate::finding::{Area, Finding, FindingState};
use crate::privileges::ProcessCapabilities;

/// The kernel, and what else it offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// What it calls itself; decides nothing.
    pub release: Option<String>,
    /// Whether memory files can be made and sealed: what the shared-memory link is made of.
    pub memfd_sealing: bool,
    /// Whether one thread can make all others of its process pass a barrier.
    pub membarrier: bool,
    /// Whether the processor's own counters, such as cache misses, can be read.
    pub hardware_counters: HardwareCounters,
}

/// Whether the processor's own counters can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HardwareCounters {
    /// By this process, for itself at least.
    Readable,
    /// They are there, but not for this process.
    Forbidden,
    /// Neither the processor nor the hypervisor offers any.
    Absent,
}

/// Up to this level of `kernel.perf_event_paranoid`, ordinary users may count the events of their own programs.
const COUNT_OWN_LEVEL_MAX: i32 = 2;

const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

impl Kernel {
    pub(crate) fn probe(files: &Files<'_>) -> Self {
        let status = files.text("/proc/self/status").unwrap_or_default();
        let is_privileged = ProcessCapabilities::parse(&status).is_some_and(|held| held.perfmon);
        let trust = files.value("/proc/sys/kernel/perf_event_paranoid");
        let may_count = is_privileged || trust.is_some_and(|level: i32| level <= COUNT_OWN_LEVEL_MAX);
        Self {
            release: files.value("/proc/sys/kernel/osrelease"),
            memfd_sealing: seals_hold() == Ok(true),
            membarrier: barrier_works(),
            hardware_counters: HardwareCounters::judge(&event_sources(), may_count),
        }
    }

    /// What it means for Outboard.
    pub fn findings(&self) -> Vec<Finding> {
        let finding = |name, detail: &str| Finding::new(Area::Kernel, name, FindingState::Good, detail);
        let release = self.release.as_deref();
        let (counters, fix) = match self.hardware_counters {
            HardwareCounters::Readable => ("cache misses and the like can be measured", ""),
            HardwareCounters::Forbidden => (
                "not for this user: benchmarks show times only",
                "sudo sysctl -w kernel.perf_event_paranoid=2",
            ),
            HardwareCounters::Absent => (
                "none: benchmarks show times only",
                "in a virtual machine, have its host pass the counters on",
            ),
        };
        let readable = self.hardware_counters == HardwareCounters::Readable;
        let sealing = match self.memfd_sealing {
            true => "a memory file was sealed: neighbours can share memory safely",
            false => "refused: the shared-memory link cannot be used, neighbours are reached by tcp",
        };
        let barrier = match self.membarrier {
            true => "one thread can make all others pass a barrier",
            false => "refused: threads that go to sleep pay for a barrier each time",
        };
        let sealing_fix = "allow memfd_create, in the seccomp filter or with sysctl vm.memfd_noexec=0";
        vec![
            finding("release", release.unwrap_or("not known")),
            finding("memfd sealing", sealing).limited_unless(self.memfd_sealing, sealing_fix),
            finding("membarrier", barrier)
                .limited_unless(self.membarrier, "allow membarrier in the seccomp filter"),
            finding("hardware counters", counters).limited_unless(readable, fix),
        ]
    }
}

impl HardwareCounters {
    fn judge(sources: &[String], may_count: bool) -> Self {
        // The processor's own: `cpu` on x86, `cpu_core` where cores differ, `armv8_…` on aarch64.
        let is_processor =
            |name: &String| name == "cpu" || name.starts_with("cpu_") || name.starts_with("armv");
        if !sources.iter().any(is_processor) {
            Self::Absent
        } else if may_count {
            Self::Readable
        } else {
            Self::Forbidden
        }
    }
}

fn event_sources() -> Vec<String> {
    let entries = std::fs::read_dir(EVENT_SOURCES).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Seals a memory file and tries to break the seal.
fn seals_hold() -> Result<bool, Errno> {
    let file = rustix::fs::memfd_create(c"outboard-probe", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, 1)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let is_held = |size| rustix::fs::ftruncate(&file, size) == Err(Errno::PERM);
    Ok(is_held(0) && is_held(2))
}

fn barrier_works() -> bool {
    membarrier_query().contains(MembarrierQuery::PRIVATE_EXPEDITED)
        && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
        && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_need_a_processor_that_has_them_and_permission() {
        let sources = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let virtual_machine = sources(&["software", "tracepoint", "msr", "breakpoint"]);
        assert_eq!(HardwareCounters::judge(&virtual_machine, true), HardwareCounters::Absent);
        for name in ["cpu", "cpu_core", "armv8_pmuv3_0"] {
            assert_eq!(
                HardwareCounters::judge(&sources(&[name]), true),
                HardwareCounters::Readable,
                "{name}"
            );
            assert_eq!(
                HardwareCounters::judge(&sources(&[name]), false),
                HardwareCounters::Forbidden,
                "{name}"
            );
        }
    }

    #[test]
    fn everything_that_is_refused_has_a_fix() {
        let refused = Kernel {
            release: None,
            memfd_sealing: false,
            membarrier: false,
            hardware_counters: HardwareCounters::Forbidden,
        };
        let findings = refused.findings();
        assert_eq!(findings.iter().filter(|finding| finding.state == FindingState::Limited).count(), 3);
        assert!(findings[1..].iter().all(|finding| finding.fix.is_some()), "{findings:?}");
    }

    #[test]
    fn a_seal_that_is_granted_holds() {
        match seals_hold() {
            Ok(held) => assert!(held),
            Err(errno) => println!("skipped: this process may not seal memory files: {errno}"),
        }
    }
}
