//! What the state of userfaultfd means, and how to mend it.

use rustix::io::Errno;

use outboard_userfaultfd::DEVICE;

use super::{DescriptorSource, Operations, Trial, UserfaultfdSupport};
use crate::finding::{Area, Finding, FindingState};
use crate::user::User;

impl UserfaultfdSupport {
    /// What it means for far memory.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = vec![self.access_finding()];
        findings.extend(self.operations.iter().flat_map(Operations::findings));
        findings
    }

    fn access_finding(&self) -> Finding {
        let (state, effect) = match self.how {
            Some(DescriptorSource::Syscall | DescriptorSource::Device) => {
                (FindingState::Good, "serves faults of this process and of its system calls")
            }
            Some(DescriptorSource::UserModeOnly) => (
                FindingState::Limited,
                "serves faults in user mode only: a system call given far memory that is not resident fails with \
                 EFAULT, so prefault() or pin() it first",
            ),
            None => (FindingState::Missing, "there is no way to get one: far memory cannot be used"),
        };
        let detail = format!("{effect} ({})", self.ways());
        let finding = Finding::new(Area::Paging, "userfaultfd", state, detail);
        if state == FindingState::Good {
            finding
        } else {
            finding.with_fix(self.access_fix(&User::of_this_process()))
        }
    }

    /// What was tried, and with which result.
    fn ways(&self) -> String {
        let ways = self.attempts.iter().map(|attempt| {
            let name = match attempt.route {
                DescriptorSource::Syscall => "system call",
                DescriptorSource::Device => DEVICE,
                DescriptorSource::UserModeOnly => "system call for user mode",
            };
            match attempt.refused {
                None => format!("{name} works"),
                Some(errno) => format!("{name} {}", reason(errno)),
            }
        });
        ways.collect::<Vec<_>>().join(", ")
    }

    fn refusal(&self, route: DescriptorSource) -> Option<Errno> {
        self.attempts.iter().find(|attempt| attempt.route == route).and_then(|attempt| attempt.refused)
    }

    /// How to get a userfaultfd that serves everything.
    pub(super) fn access_fix(&self, user: &User) -> String {
        if self.refusal(DescriptorSource::Syscall) == Some(Errno::NOSYS) {
            return "use a kernel built with CONFIG_USERFAULTFD=y".to_owned();
        }
        let sysctl = "sudo sysctl -w vm.unprivileged_userfaultfd=1";
        // The kernel itself refuses this to no process.
        if self.refusal(DescriptorSource::UserModeOnly) == Some(Errno::PERM) {
            return "allow the system call userfaultfd in the seccomp filter (docker run --security-opt \
                    seccomp=PROFILE), or pass the device in (docker run --device /dev/userfaultfd)"
                .to_owned();
        }
        match user {
            // Root is refused where it lacks the capability, which is in a container.
            User::Root => {
                "let the container have the capability (docker run --cap-add SYS_PTRACE) or the device \
                           (docker run --device /dev/userfaultfd)"
                    .to_owned()
            }
            User::Other { .. } if !self.device_exists => format!("{sysctl}, or run as root"),
            User::Other { group } => format!(
                "let your group open {DEVICE}: echo 'KERNEL==\"userfaultfd\", GROUP=\"{group}\", MODE=\"0660\"' | sudo \
                 tee /etc/udev/rules.d/60-userfaultfd.rules && sudo udevadm control --reload && sudo udevadm trigger \
                 --name-match=userfaultfd; or for everybody: {sysctl}"
            ),
        }
    }
}

impl Operations {
    fn findings(&self) -> Vec<Finding> {
        let newer = |version| format!("use Linux {version} or newer");
        let protect = match (&self.write_protect, &self.copy_protected) {
            (Trial::Works, second) => second,
            (first, _) => first,
        };
        let names: Vec<_> = self.features.names().collect();
        let handshake = if names.is_empty() { FindingState::Unknown } else { FindingState::Good };
        vec![
            tried(
                "UFFDIO_COPY",
                &self.copy,
                "an absent page was filled",
                FindingState::Missing,
                "far memory cannot be used",
            )
            .with_fix_unless_good(newer("5.11")),
            tried(
                "UFFDIO_MOVE",
                &self.relocate,
                "a page was moved: chunks are moved in and out without a copy",
                FindingState::Limited,
                "chunks are copied in and thrown away, which takes about twice as long",
            )
            .with_fix_unless_good(newer("6.8")),
            tried(
                "write protection",
                protect,
                "a page was protected while it was filled, and later: first stores can be seen",
                FindingState::Limited,
                "changed chunks are found by their fingerprints alone",
            )
            .with_fix_unless_good(newer(if cfg!(target_arch = "aarch64") {
                "6.10"
            } else {
                "5.7"
            })),
            tried(
                "UFFDIO_POISON",
                &self.poison,
                "a page was poisoned: a lost server raises SIGBUS at the access that needs it",
                FindingState::Limited,
                "a lost server ends the process that needs it",
            )
            .with_fix_unless_good(newer("6.6")),
            Finding::new(Area::Paging, "features", handshake, names.join(", ")),
        ]
    }
}

impl Finding {
    fn with_fix_unless_good(self, fix: String) -> Self {
        if self.state == FindingState::Good { self } else { self.with_fix(fix) }
    }
}

fn tried(name: &str, trial: &Trial, works: &str, otherwise: FindingState, then: &str) -> Finding {
    match trial {
        Trial::Works => Finding::new(Area::Paging, name, FindingState::Good, works),
        Trial::Fails { why } => Finding::new(Area::Paging, name, otherwise, format!("{why}; {then}")),
    }
}

fn reason(errno: Errno) -> String {
    match errno {
        Errno::PERM | Errno::ACCESS => "is not permitted".to_owned(),
        Errno::NOENT => "does not exist".to_owned(),
        Errno::NOSYS => "is not in this kernel".to_owned(),
        Errno::INVAL => "is not known to this kernel".to_owned(),
        other => format!("fails: {other}"),
    }
}
