//! The errors of messages.

use std::time::Duration;

use outboard_limits::show_size;
use thiserror::Error;

/// Why a message was not taken.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// All bundles are under way: receive, then try again. Ordinary back-pressure.
    #[error("all bundles are under way; receive what has come and try again")]
    Full,
    /// There is no such rank.
    #[error("there is no rank {rank} in a job of {ranks}: ranks count from 0")]
    NoSuchRank {
        /// Which was asked for.
        rank: u32,
        /// How many there are.
        ranks: u32,
    },
    /// There is no such message space.
    #[error(
        "there is no message space {space}: there are {spaces}, counted from 0; ask for more in MessengerOptions"
    )]
    NoSuchSpace {
        /// Which was asked for.
        space: u8,
        /// How many there are.
        spaces: u8,
    },
    /// The message is longer than messages may be.
    #[error(
        "a message of {} is longer than the {} that are allowed; raise messages.longest in all ranks",
        show_size(*len as u64),
        show_size(*max as u64)
    )]
    TooLong {
        /// How long it is.
        len: usize,
        /// How long it may be.
        max: usize,
    },
    /// The rank is not there any more.
    #[error("rank {rank} is not there any more: {why}")]
    Departed {
        /// Which rank.
        rank: u32,
        /// What is known.
        why: String,
    },
    /// The system refused something.
    #[error("cannot move messages: {0}")]
    System(String),
}

/// Why messages cannot be exchanged.
#[derive(Error)]
#[non_exhaustive]
pub enum MessengerError {
    /// The settings make no sense.
    #[error("{0}")]
    BadOptions(String),
    /// There is a messenger in this process already.
    #[error("this job has a messenger already; ask that one for more message spaces")]
    Taken,
    /// No memory.
    #[error(transparent)]
    Memory(Box<dyn std::error::Error + Send + Sync>),
    /// The system refused something.
    #[error("cannot exchange messages: {0}")]
    System(#[from] std::io::Error),
    /// Another rank cannot be reached.
    #[error("{connected} of {others} other ranks could be reached within {waited:?}; {why}")]
    NotConnected {
        /// How many could.
        connected: usize,
        /// How many there are.
        others: usize,
        /// How long was waited.
        waited: Duration,
        /// The latest event.
        why: String,
    },
    /// A message was not taken.
    #[error(transparent)]
    Send(#[from] SendError),
    /// Bytes that are no messages.
    #[error("rank {rank} sent what is no message: {why}")]
    Nonsense {
        /// Which rank.
        rank: u32,
        /// The fault.
        why: String,
    },
    /// A rank went without answering.
    #[error("rank {rank} is not there any more and leaves {requests} requests without a reply: {why}")]
    Unanswered {
        /// Which rank.
        rank: u32,
        /// How many requests.
        requests: u64,
        /// What is known.
        why: String,
    },
    /// Others did not come in time.
    #[error("after {waited:?} not all ranks have come {what}")]
    Deadline {
        /// To what.
        what: &'static str,
        /// How long was waited.
        waited: Duration,
    },
}

outboard_wire::debug_with_causes!(SendError, MessengerError);
