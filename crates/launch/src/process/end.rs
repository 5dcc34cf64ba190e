//! How a process ended.

use std::borrow::Cow;
use std::fmt;

use rustix::process::WaitIdStatus;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It returned this exit code.
    Exited {
        /// 0 for success.
        code: i32,
    },
    /// A signal ended it.
    Signaled {
        /// The signal's number; [`signal_name`] names it.
        signal: i32,
        /// Whether the kernel wrote its memory to a core file.
        core_dumped: bool,
    },
    /// It was killed and still did not end: it waits in the kernel for something that does not come.
    Stuck,
    /// It ended, but another thread of the launcher's process took the news of how.
    Lost,
}

impl End {
    /// Whether it ended by itself, with exit code 0.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Exited { code: 0 })
    }

    pub(crate) fn from_status(status: &WaitIdStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Exited { code },
            (None, Some(signal)) => Self::Signaled { signal, core_dumped: status.dumped() },
            (None, None) => Self::Lost,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exited with code {code}"),
            Self::Signaled { signal, core_dumped } => {
                write!(f, "was killed by {}", signal_name(*signal))?;
                if *core_dumped { f.write_str(" (core dumped)") } else { Ok(()) }
            }
            Self::Stuck => f.write_str("did not end even after SIGKILL"),
            Self::Lost => f.write_str("ended, it is not known how"),
        }
    }
}

/// The name of a signal of this machine, such as `SIGSEGV`.
pub fn signal_name(signal: i32) -> Cow<'static, str> {
    let named = NAMES.iter().find(|(number, _)| *number == signal);
    match named {
        Some((_, name)) => Cow::Borrowed(name),
        None if (libc::SIGRTMIN()..=libc::SIGRTMAX()).contains(&signal) => {
            Cow::Owned(format!("SIGRTMIN+{}", signal - libc::SIGRTMIN()))
        }
        None => Cow::Owned(format!("signal {signal}")),
    }
}

const NAMES: &[(i32, &str)] = &[
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGSTKFLT, "SIGSTKFLT"),
    (libc::SIGCHLD, "SIGCHLD"),
    (libc::SIGCONT, "SIGCONT"),
    (libc::SIGSTOP, "SIGSTOP"),
    (libc::SIGTSTP, "SIGTSTP"),
    (libc::SIGTTIN, "SIGTTIN"),
    (libc::SIGTTOU, "SIGTTOU"),
    (libc::SIGURG, "SIGURG"),
    (libc::SIGXCPU, "SIGXCPU"),
    (libc::SIGXFSZ, "SIGXFSZ"),
    (libc::SIGVTALRM, "SIGVTALRM"),
    (libc::SIGPROF, "SIGPROF"),
    (libc::SIGWINCH, "SIGWINCH"),
    (libc::SIGIO, "SIGIO"),
    (libc::SIGPWR, "SIGPWR"),
    (libc::SIGSYS, "SIGSYS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        assert_eq!(signal_name(11), "SIGSEGV");
        assert_eq!(signal_name(libc::SIGRTMIN() + 2), "SIGRTMIN+2");
        assert_eq!(signal_name(99), "signal 99");
        for signal in 1..32 {
            assert!(signal_name(signal).starts_with("SIG"), "{signal}");
        }
    }
}
