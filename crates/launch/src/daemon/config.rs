//! What to start, and how.

use std::ffi::OsString;
use std::time::Duration;

use crate::quota::Quota;

/// In a daemon's environment, the number of the descriptor to which it writes one line when it is ready.
///
/// The daemon closes it then, or marks it close-on-exec at least, so that what it starts does not inherit it.
pub const READY_FD_VARIABLE: &str = "OUTBOARD_READY_FD";

/// A daemon to start.
#[derive(Clone, Debug)]
pub struct DaemonConfig {
    /// Names it in what it prints and in errors.
    pub name: String,
    /// A path, or a name to be found in `PATH`.
    pub program: OsString,
    /// The program's arguments; default none.
    pub args: Vec<OsString>,
    /// Added to the launcher's own environment; default nothing.
    pub env: Vec<(String, String)>,
    /// The processors it may use; default those of the launcher.
    pub cpus: Option<Vec<usize>>,
    /// Its share of a processor; default unlimited.
    pub quota: Option<Quota>,
    /// How long it may take to be ready; default 10 s.
    pub ready_within: Duration,
}

impl DaemonConfig {
    /// A daemon called `name`, with defaults for everything else.
    pub fn new(name: impl Into<String>, program: impl Into<OsString>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            cpus: None,
            quota: None,
            ready_within: Duration::from_secs(10),
        }
    }
}
