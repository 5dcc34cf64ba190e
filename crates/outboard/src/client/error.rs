//! Why a daemon did not do what it was asked.

use outboard_link::{AccessError, LinkError, Peer};
use outboard_wire::control::Failure;
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
        failure: Failure,
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
        /// What it should name.
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
    /// The bytes were not written: meanwhile another writer came, or somebody fenced.
    #[error("the write epoch {epoch} of the region has passed; open it again, or fence it")]
    StaleEpoch {
        /// The epoch in which they were written.
        epoch: u64,
    },
    /// As many regions are open as a link can have.
    #[error(
        "{most} regions of {daemon} are open here, and no more can be: give up those that are not needed, or use few large \
         regions for many small ones"
    )]
    TooManyRegions {
        /// Whose.
        daemon: Peer,
        /// How many can be open at once.
        most: usize,
    },
    /// The bytes cannot be reached.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No local memory for the transfer.
    #[error("no memory for a transfer: {0}")]
    NoMemory(String),
    /// The link is gone, or the answer did not come in time.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

outboard_wire::debug_with_causes!(AskError);

impl AskError {
    /// Whether the daemon has no region or file of the name that was asked for.
    pub fn is_not_there(&self) -> bool {
        matches!(self, Self::Refused { failure: Failure::NoSuchRegion | Failure::NoSuchFile, .. })
    }
}
