//! Who this process is, and what it may use.

use outboard_limits::{Files, field, show_limit};
use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use crate::finding::{Area, Finding, FindingState};

/// Who this process is, and what it may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Privileges {
    /// The effective user.
    pub user_id: u32,
    /// The effective capabilities; none if the kernel does not say.
    pub capabilities: Option<ProcessCapabilities>,
    /// Whether a seccomp filter, as in most containers, may refuse system calls.
    pub is_filtered: bool,
    /// What this process may use.
    pub limits: ProcessLimits,
}

/// The capabilities that make a difference to Outboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessCapabilities {
    /// `CAP_NET_ADMIN`: interfaces and queueing can be set up.
    pub net_admin: bool,
    /// `CAP_IPC_LOCK`: pinned memory is not limited.
    pub ipc_lock: bool,
    /// `CAP_SYS_PTRACE`: userfaultfd without restriction.
    pub sys_ptrace: bool,
    /// `CAP_SYS_NICE`: priorities can be raised, other processes' cores chosen.
    pub sys_nice: bool,
    /// `CAP_PERFMON`, or `CAP_SYS_ADMIN` that includes it: all counters can be read.
    pub perfmon: bool,
}

/// What this process may use. Sizes are in bytes; none is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessLimits {
    /// `RLIMIT_MEMLOCK`, now.
    pub locked_memory: Option<u64>,
    /// `RLIMIT_NOFILE`, now.
    pub open_files: Option<u64>,
    /// `RLIMIT_NOFILE`, up to which this process may raise it.
    pub open_files_max: Option<u64>,
    /// `RLIMIT_AS`, now: bounds all far memory of a process together.
    pub address_space: Option<u64>,
}

/// Registered buffers of a link and its rings fit in this.
const LOCKED_MEMORY_WANTED: u64 = 64 << 20;

/// A descriptor or three for each of a few hundred peers.
const OPEN_FILES_WANTED: u64 = 1024;

impl Privileges {
    pub(crate) fn probe(files: &Files<'_>) -> Self {
        let status = files.text("/proc/self/status").unwrap_or_default();
        let files_limit = getrlimit(Resource::Nofile);
        Self {
            user_id: rustix::process::geteuid().as_raw(),
            capabilities: ProcessCapabilities::parse(&status),
            is_filtered: field(&status, "Seccomp:").is_some_and(|mode| mode != "0"),
            limits: ProcessLimits {
                locked_memory: getrlimit(Resource::Memlock).current,
                open_files: files_limit.current,
                open_files_max: files_limit.maximum,
                address_space: getrlimit(Resource::As).current,
            },
        }
    }

    /// What it means for Outboard.
    pub fn findings(&self) -> Vec<Finding> {
        vec![
            self.user_finding(),
            self.capabilities_finding(),
            self.locked_memory_finding(),
            self.limits.open_files_finding(),
            self.limits.address_space_finding(),
        ]
    }

    fn user_finding(&self) -> Finding {
        let who = if self.user_id == 0 { "root" } else { "an ordinary user" };
        let filter = if self.is_filtered { ", behind a seccomp filter" } else { "" };
        let detail = format!("{who} (uid {}){filter}", self.user_id);
        Finding::new(Area::Privileges, "user", FindingState::Good, detail)
    }

    fn capabilities_finding(&self) -> Finding {
        let finding = |state, detail: String| Finding::new(Area::Privileges, "capabilities", state, detail);
        let Some(held) = self.capabilities else {
            return finding(FindingState::Unknown, "/proc/self/status does not say".to_owned());
        };
        let effects = [
            (held.sys_ptrace, "CAP_SYS_PTRACE", "userfaultfd must come another way"),
            (held.sys_nice, "CAP_SYS_NICE", "an agent cannot raise its priority"),
            (held.net_admin, "CAP_NET_ADMIN", "no network can be set up for tests"),
        ];
        let show = |(is_held, name, effect)| match is_held {
            true => String::from(name),
            false => format!("no {name}: {effect}"),
        };
        let fix = match self.user_id {
            // Root lacks it in a container.
            0 => "let the container have it: docker run --cap-add SYS_NICE",
            _ => "run the agent as root, or: sudo setcap cap_sys_nice=ep \"$(command -v outboard)\"",
        };
        finding(FindingState::Good, effects.map(show).join("; ")).limited_unless(held.sys_nice, fix)
    }

    fn locked_memory_finding(&self) -> Finding {
        let limit = self.limits.locked_memory;
        let is_exempt = self.capabilities.is_some_and(|held| held.ipc_lock);
        let is_enough = is_exempt || limit.is_none_or(|bytes| bytes >= LOCKED_MEMORY_WANTED);
        let effect = match (is_exempt, is_enough) {
            (true, _) => ", but CAP_IPC_LOCK lifts the limit",
            (false, true) => "",
            (false, false) => ": no more than this can be pinned or registered with a network card",
        };
        let detail = format!("{}{effect}", show_limit(limit));
        let fix = "ulimit -l unlimited, or for good: echo '* - memlock unlimited' | sudo tee \
                   /etc/security/limits.d/60-memlock.conf (and LimitMEMLOCK=infinity in systemd units)";
        Finding::new(Area::Privileges, "RLIMIT_MEMLOCK", FindingState::Good, detail)
            .limited_unless(is_enough, fix)
    }
}

impl ProcessLimits {
    fn open_files_finding(&self) -> Finding {
        let count = |limit: Option<u64>| limit.map_or_else(|| "unlimited".to_owned(), |n| n.to_string());
        let is_enough = self.open_files.is_none_or(|n| n >= OPEN_FILES_WANTED);
        let effect =
            if is_enough { "" } else { ": a daemon serves only as many clients as it has descriptors" };
        let detail =
            format!("{} (may be raised to {}){effect}", count(self.open_files), count(self.open_files_max));
        Finding::new(Area::Privileges, "RLIMIT_NOFILE", FindingState::Good, detail)
            .limited_unless(is_enough, format!("ulimit -n {OPEN_FILES_WANTED}, or more"))
    }

    fn address_space_finding(&self) -> Finding {
        let effect = if self.address_space.is_some() { ": far memory counts towards it" } else { "" };
        let detail = format!("{}{effect}", show_limit(self.address_space));
        Finding::new(Area::Privileges, "RLIMIT_AS", FindingState::Good, detail)
            .limited_unless(self.address_space.is_none(), "ulimit -v unlimited")
    }
}

impl ProcessCapabilities {
    /// Reads the line `CapEff` of `/proc/self/status`.
    pub(crate) fn parse(status: &str) -> Option<Self> {
        let set = u64::from_str_radix(field(status, "CapEff:")?, 16).ok()?;
        let holds = |number: u32| set >> number & 1 == 1;
        Some(Self {
            net_admin: holds(12),
            ipc_lock: holds(14),
            sys_ptrace: holds(19),
            sys_nice: holds(23),
            perfmon: holds(38) || holds(21),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNPRIVILEGED: &str =
        "Name:\tx\nUid:\t65534\t65534\t65534\t65534\nCapEff:\t0000000000000000\nSeccomp:\t2\n";

    fn privileges(capabilities: Option<ProcessCapabilities>, limit: Option<u64>) -> Privileges {
        let limits = ProcessLimits {
            locked_memory: limit,
            open_files: limit,
            open_files_max: None,
            address_space: None,
        };
        Privileges { user_id: 1, capabilities, is_filtered: true, limits }
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        let none = ProcessCapabilities::parse(UNPRIVILEGED).unwrap();
        assert!(!none.net_admin && !none.ipc_lock && !none.sys_ptrace && !none.sys_nice);
        let all = ProcessCapabilities::parse("CapPrm:\t0\nCapEff:\t000001fffeffffff\n").unwrap();
        assert!(all.net_admin && all.ipc_lock && all.sys_ptrace && all.sys_nice);
        let nice = ProcessCapabilities::parse("CapEff:\t0000000000800000\n").unwrap();
        assert!(nice.sys_nice && !nice.sys_ptrace && !nice.perfmon);
        assert!(ProcessCapabilities::parse("CapEff:\t0000000000200000\n").unwrap().perfmon);
        assert_eq!(ProcessCapabilities::parse("CapEff:\tzebra\n"), None);
        assert_eq!(ProcessCapabilities::parse(""), None);
    }

    #[test]
    fn small_limits_are_named_with_their_fix() {
        let findings = privileges(ProcessCapabilities::parse(UNPRIVILEGED), Some(64)).findings();
        for name in ["capabilities", "RLIMIT_MEMLOCK", "RLIMIT_NOFILE"] {
            let finding = findings.iter().find(|finding| finding.name == name).unwrap();
            assert_eq!(finding.state, FindingState::Limited, "{finding:?}");
            assert!(finding.fix.is_some(), "{finding:?}");
        }
        assert!(findings[0].detail.contains("seccomp"), "{}", findings[0].detail);
        assert!(findings.iter().all(|finding| finding.state != FindingState::Missing));
    }

    #[test]
    fn unlimited_or_exempt_is_good() {
        let all = ProcessCapabilities::parse("CapEff:\t000001ffffffffff\n");
        let exempt = privileges(all, Some(1)).locked_memory_finding();
        assert_eq!((exempt.state, exempt.fix), (FindingState::Good, None));
        assert!(privileges(all, None).findings().iter().all(|finding| finding.state == FindingState::Good));
        let unknown = privileges(None, None).capabilities_finding();
        assert_eq!(unknown.state, FindingState::Unknown);
    }

    #[test]
    fn this_process_has_a_user_and_limits() {
        let here = Privileges::probe(&Files::of_this_machine());
        assert_eq!(here.user_id, rustix::process::geteuid().as_raw());
        assert!(here.limits.open_files.is_none_or(|n| n > 0));
        assert_eq!(here.findings().len(), 5);
    }
}
