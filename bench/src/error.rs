//! Why a benchmark has no result.

use std::io;
use std::time::Duration;

use outboard::{AskError, OpenError};
use outboard_agent::{StartError, StopError};
use outboard_link::{AccessError, AddressError, ConnectError, FrameSendError, LinkError};
use rustix::io::Errno;
use thiserror::Error;

/// Why a benchmark has no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// There is no such benchmark or question.
    #[error("there is no benchmark “{name}”; there are: {}", outboard_measure::BENCHMARKS.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// A recording cannot be played.
    #[error("cannot play {file}: {why}")]
    Recording {
        /// Which file.
        file: String,
        /// Why.
        why: String,
    },
    /// The second process could not be started.
    #[error("cannot start {program} as the second process")]
    Spawn {
        /// Which program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// The second process was started by hand.
    #[error("standard input is not the other process: this command is started by `outboard bench`")]
    NotAPeer,
    /// The second process gave up.
    #[error("the second process failed: {why}")]
    PeerFailed {
        /// In its own words.
        why: String,
    },
    /// The second process is gone.
    #[error("the second process ended while waiting for {awaited}")]
    PeerGone {
        /// What was awaited.
        awaited: &'static str,
    },
    /// The second process does not do its part.
    #[error("nothing happened for {waited:?} while waiting for {awaited}")]
    Stalled {
        /// How long it was given.
        waited: Duration,
        /// What was awaited.
        awaited: &'static str,
    },
    /// Bytes were lost or changed on the way: a figure from this would be a lie.
    #[error("{what} arrived changed: checksum {found:#018x} instead of {expected:#018x}")]
    Changed {
        /// What was moved.
        what: &'static str,
        /// What was sent.
        expected: u64,
        /// What was received.
        found: u64,
    },
    /// A message between the two processes means nothing.
    #[error("the second process sent something else than {awaited}")]
    Nonsense {
        /// What was awaited.
        awaited: &'static str,
        /// What was wrong.
        source: serde_json::Error,
    },
    /// No memory cgroup can be made, and without one nothing is scarce.
    #[error("cannot make a memory cgroup ({what}); run as root, or where you may make one")]
    NoGroup {
        /// What failed.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// The measured function could not be loaded, or does something else.
    #[error("the measured function does not work: {why}")]
    Function {
        /// What is wrong with it.
        why: String,
    },
    /// The measured calls did not do what they should.
    #[error("the measured calls do not work: {why}")]
    Calls {
        /// What went wrong.
        why: String,
    },
    /// GAP's programs cannot be built or run.
    #[error(
        "GAP does not work: {why}; give --gap a clone of https://github.com/sbeamer/gapbs, or leave it out"
    )]
    Gap {
        /// What its compiler or a program of it said.
        why: String,
    },
    /// The picture cannot be written.
    #[error("cannot write the picture to {file}")]
    Plot {
        /// Where to.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// Far memory cannot be had.
    #[error("the measured far memory cannot be had")]
    Far(#[from] outboard::FarError),
    /// The link between the two processes could not be opened.
    #[error("the measured link cannot be opened")]
    Connect(#[from] ConnectError),
    /// The lead's address for the link makes no sense.
    #[error("the measured link has no usable address")]
    Address(#[from] AddressError),
    /// The link was lost.
    #[error("the measured link was lost")]
    Link(#[from] LinkError),
    /// A frame was refused.
    #[error("the measured link refused a frame")]
    Send(#[from] FrameSendError),
    /// A one-sided access was refused.
    #[error("the measured link refused an access")]
    Access(#[from] AccessError),
    /// A write failed.
    #[error("the measured writer does not write")]
    Write(#[from] outboard::WriteError),
    /// The measured daemon could not be started.
    #[error("the measured daemon cannot be started")]
    Daemon(#[from] StartError),
    /// The measured daemon did not end.
    #[error("the measured daemon does not end")]
    Stop(#[from] StopError),
    /// The measured daemon did not answer as it should.
    #[error("the measured daemon did not answer")]
    Ask(#[from] AskError),
    /// The memory server cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The operating system refused.
    #[error("{call} failed")]
    System {
        /// Which call.
        call: &'static str,
        /// Why.
        source: io::Error,
    },
}

/// Names the call that failed.
pub(crate) trait Named<T> {
    /// The same result, with the call's name in the error.
    fn named(self, call: &'static str) -> Result<T, BenchError>;
}

impl<T> Named<T> for io::Result<T> {
    fn named(self, call: &'static str) -> Result<T, BenchError> {
        self.map_err(|source| BenchError::System { call, source })
    }
}

impl<T> Named<T> for Result<T, Errno> {
    fn named(self, call: &'static str) -> Result<T, BenchError> {
        self.map_err(|errno| BenchError::System { call, source: errno.into() })
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
