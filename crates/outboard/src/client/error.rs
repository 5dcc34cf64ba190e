//! Why a daemon did not do what it was asked.

use std::time::Duration;

use outboard_link::{AccessError, LinkError, Peer};
use outboard_wire::control::ControlFailure;
use outboard_wire::{CHUNK_LOG2_MAX, CHUNK_LOG2_MIN, DecodeError};
use thiserror::Error;

/// Why a daemon did not do what it was asked.
#[derive(Error)]
#[non_exhaustive]
pub enum AskError {
    /// It said no.
    #[error("{daemon} refused: {detail}")]
    Refused {
        /// Who.
        daemon: Peer,
        /// Why, for programs.
        failure: ControlFailure,
        /// Why, for people.
        detail: String,
    },
    /// It answered something that is no answer to the question.
    #[error("{daemon} gave an answer that does not fit the question")]
    Unexpected {
        /// Who.
        daemon: Peer,
    },
    /// Its answer could not be read.
    #[error("{daemon} gave an answer that cannot be read: {source}")]
    Unreadable {
        /// Who.
        daemon: Peer,
        /// What was wrong.
        source: DecodeError,
    },
    /// A name that does not fit.
    #[error("“{name}” is no {what}: it must be at most {max} bytes without zeros")]
    BadName {
        /// The name.
        name: String,
        /// The thing that it should name.
        what: &'static str,
        /// How long it may be.
        max: usize,
    },
    /// A unit of movement that no region can have.
    #[error(
        "no region moves in chunks of 2^{chunk_log2} bytes: choose 2^{CHUNK_LOG2_MIN} to 2^{CHUNK_LOG2_MAX}"
    )]
    BadChunk {
        /// The unit, as a power of two.
        chunk_log2: u8,
    },
    /// The bytes were not written: meanwhile another writer came, or a process fenced.
    #[error("the write epoch {epoch} of the region has passed, it is {now} now; open it again, or fence it")]
    StaleEpoch {
        /// The epoch in which they were written.
        epoch: u64,
        /// The present one.
        now: u64,
    },
    /// The bytes were not written: they would be the first in their part of a sparse region, and the server has no room left.
    #[error(
        "{daemon} has no room for what was never written before; free regions, or start it with more --capacity"
    )]
    NoRoom {
        /// Which server.
        daemon: Peer,
    },
    /// As many regions are open as a link can have.
    #[error(
        "{most} regions of {daemon} are open here, and no more can be: give up those that are not needed, or use few large \
         regions for many small ones"
    )]
    TooManyRegions {
        /// The daemon that has them.
        daemon: Peer,
        /// How many can be open at once.
        most: usize,
    },
    /// The daemon was started anew since the region was opened, and keeps nothing, or not this region.
    #[error("{daemon} has been started anew and no longer has this region")]
    StartedAnew {
        /// Who.
        daemon: Peer,
    },
    /// The access to a region was refused, or a machine lacks what it needs. It is never [`AccessError::Lost`].
    #[error(transparent)]
    Access(AccessError),
    /// No local memory for the transfer.
    #[error("no memory for a transfer: {0}")]
    NoMemory(String),
    /// The daemon did not answer in time. It may still do what it was asked.
    #[error(
        "{daemon} gave no sign of {awaited} within {waited:?}: raise the deadline if it has much to do (link.deadline, \
         `with_deadline`)"
    )]
    Deadline {
        /// Who.
        daemon: Peer,
        /// How long was waited.
        waited: Duration,
        /// For what.
        awaited: &'static str,
    },
    /// The link is gone.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

outboard_wire::debug_with_causes!(AskError);

impl From<AccessError> for AskError {
    fn from(error: AccessError) -> Self {
        match error {
            AccessError::Lost(lost) => Self::Lost(lost),
            other => Self::Access(other),
        }
    }
}

impl AskError {
    /// Whether the daemon has no region or file of the name that was asked for.
    pub fn is_not_there(&self) -> bool {
        matches!(
            self,
            Self::Refused { failure: ControlFailure::NoSuchRegion | ControlFailure::NoSuchFile, .. }
        )
    }
}
