//! Ways to get a userfaultfd.

use std::fmt;

use serde::Serialize;

/// The device that gives userfaultfds to processes that may open it.
pub const DEVICE: &str = "/dev/userfaultfd";

/// A way to get a userfaultfd. The first that is open is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DescriptorSource {
    /// The system call: needs `CAP_SYS_PTRACE` or `vm.unprivileged_userfaultfd=1`.
    Syscall,
    /// `/dev/userfaultfd`: needs permission to open it.
    Device,
    /// The system call with `UFFD_USER_MODE_ONLY`: needs nothing, but when the kernel itself touches an absent
    /// page on behalf of a system call, that call fails with `EFAULT`.
    UserModeOnly,
}

impl fmt::Display for DescriptorSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Syscall => "the system call userfaultfd",
            Self::Device => DEVICE,
            Self::UserModeOnly => "the system call userfaultfd, in user mode only",
        })
    }
}

impl DescriptorSource {
    /// Best first.
    pub const ALL: [Self; 3] = [Self::Syscall, Self::Device, Self::UserModeOnly];

    /// Whether system calls can be given absent pages.
    pub const fn serves_the_kernel(self) -> bool {
        !matches!(self, Self::UserModeOnly)
    }
}
