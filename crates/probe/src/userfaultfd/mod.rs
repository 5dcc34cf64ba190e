//! Which userfaultfd this process can have, and what it can do.

#[expect(unsafe_code)]
mod arena;
mod findings;
mod trial;
#[expect(unsafe_code)]
mod watched;

#[cfg(test)]
mod tests;

use outboard_limits::Files;
use rustix::io::Errno;
use serde::Serialize;

pub use outboard_userfaultfd::{DescriptorSource, Features};
pub use trial::Trial;

use outboard_userfaultfd::{DEVICE, Userfaultfd};
use trial::Trials;

/// One way that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Which way.
    pub route: DescriptorSource,
    /// The error number, if it is closed.
    #[serde(serialize_with = "error_number")]
    pub refused: Option<Errno>,
}

fn error_number<S: serde::Serializer>(errno: &Option<Errno>, serializer: S) -> Result<S::Ok, S::Error> {
    errno.map(Errno::raw_os_error).serialize(serializer)
}

/// Which userfaultfd this process can have, and what it can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UserfaultfdSupport {
    /// The best way to get one; none if there is none.
    pub how: Option<DescriptorSource>,
    /// All ways that were tried.
    pub attempts: Vec<Attempt>,
    /// What the sysctl `vm.unprivileged_userfaultfd` says, if it exists.
    pub unprivileged_allowed: Option<bool>,
    /// Whether `/dev/userfaultfd` exists.
    pub device_exists: bool,
    /// What can be done with one; none if there is none.
    pub operations: Option<Operations>,
}

/// What can be done with a userfaultfd, tried on private anonymous memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// What the kernel says that it can do.
    pub features: Features,
    /// `UFFDIO_COPY` fills an absent page. Nothing works without.
    pub copy: Trial,
    /// `UFFDIO_MOVE` moves a page. Without it, pages are copied in and thrown away.
    #[serde(rename = "move")]
    pub relocate: Trial,
    /// `UFFDIO_WRITEPROTECT` stops the stores to a page.
    pub write_protect: Trial,
    /// `UFFDIO_COPY_MODE_WP` fills an absent page that is protected from its first moment.
    pub copy_protected: Trial,
    /// `UFFDIO_POISON` makes a page raise SIGBUS. Without it, a lost server ends the process.
    pub poison: Trial,
}

impl UserfaultfdSupport {
    /// Tries every way and every operation.
    pub fn probe() -> Self {
        Self::with_files(&Files::of_this_machine())
    }

    pub(crate) fn with_files(files: &Files<'_>) -> Self {
        let attempt = |route| Attempt { route, refused: Userfaultfd::open(route).err() };
        let attempts: Vec<_> = DescriptorSource::ALL.into_iter().map(attempt).collect();
        let how = attempts.iter().find(|attempt| attempt.refused.is_none()).map(|attempt| attempt.route);
        Self {
            how,
            attempts,
            unprivileged_allowed: files
                .value::<u8>("/proc/sys/vm/unprivileged_userfaultfd")
                .map(|value| value != 0),
            device_exists: std::path::Path::new(DEVICE).exists(),
            operations: how.map(Operations::probe),
        }
    }

    /// Whether far memory can be had at all.
    pub fn is_usable(&self) -> bool {
        self.operations.as_ref().is_some_and(|operations| operations.copy.works())
    }
}

impl Operations {
    /// Tries every operation with userfaultfds got by `route`.
    fn probe(route: DescriptorSource) -> Self {
        let handshake = Userfaultfd::open(route).and_then(|new| new.agree(Features::NONE));
        // A handshake that fails is named by each trial, which begins with one.
        let trials = Trials { route, features: handshake.unwrap_or_default() };
        Self {
            features: trials.features,
            copy: trials.copy().into(),
            relocate: trials.relocate().into(),
            write_protect: trials.protect().into(),
            copy_protected: trials.copy_protected().into(),
            poison: trials.poison().into(),
        }
    }
}
