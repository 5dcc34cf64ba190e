//! What goes wrong on a link, told with the peer's name.

use std::time::Duration;

use outboard_wire::DecodeError;
use rustix::io::Errno;
use thiserror::Error;

use crate::{Distrust, Peer};

/// Why a frame was not taken.
#[derive(Clone, Error)]
pub enum FrameSendError {
    /// The peer has not made room yet. Ordinary back-pressure: try again after `progress`.
    #[error("no room: the peer has not taken what was sent before")]
    Full,
    /// The frame will never fit.
    #[error("a frame of {len} bytes is over this link's limit of {max}")]
    TooLong {
        /// How long it is.
        len: usize,
        /// The limit.
        max: usize,
    },
    /// The link is gone.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

/// A link is gone, for good.
#[derive(Clone, Error)]
#[error("lost {peer}: {loss}")]
pub struct LinkError {
    /// Who was at the other end.
    pub peer: Peer,
    /// What happened. Applications read it as the source of this error.
    #[doc(hidden)]
    #[source]
    pub loss: Loss,
}

/// How a link was lost.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Loss {
    /// The peer said goodbye.
    #[error("it closed the link: {reason}")]
    Closed {
        /// In its own words.
        reason: String,
    },
    /// The peer gave the link up, and may open another one.
    #[error("it gave the link up: {reason}")]
    GivenUp {
        /// In its own words.
        reason: String,
    },
    /// This side closed the link.
    #[error("the link was closed here")]
    ClosedHere,
    /// The peer died or hung up without a word.
    #[error("it is gone")]
    Gone,
    /// The peer lives, and has lost what it was needed to reach.
    #[error("it has lost its own link to the memory server")]
    Cut,
    /// The peer has been silent for too long.
    #[error("silent for {silent:?} while waiting for {awaited}")]
    Stalled {
        /// For how long.
        silent: Duration,
        /// What was awaited.
        awaited: &'static str,
    },
    /// The peer wrote something that a correct peer never writes.
    #[error("it broke the protocol: {0}")]
    Broke(#[from] Violation),
    /// The peer cannot be trusted any more, or never could.
    #[error("it is not trusted: {0}")]
    Untrusted(#[source] Distrust),
    /// The operating system refused.
    #[error("{call} failed")]
    System {
        /// Which call.
        call: &'static str,
        /// Why.
        #[source]
        source: Errno,
    },
}

impl Loss {
    /// What a goodbye means.
    pub fn by_goodbye(code: u16, reason: &str) -> Self {
        let reason = reason.to_owned();
        if code == 0 { Self::Closed { reason } } else { Self::GivenUp { reason } }
    }
}

/// What a correct peer never does.
#[derive(Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// Bytes that mean nothing.
    #[error(transparent)]
    Nonsense(#[from] DecodeError),
    /// A ring index outside what the ring can hold.
    #[error("ring index {index:#x} with {known:#x} known, capacity {capacity:#x}")]
    Index {
        /// What it wrote.
        index: u64,
        /// What it must not pass or precede.
        known: u64,
        /// How large the ring is.
        capacity: u64,
    },
    /// A frame longer than was agreed or than what was published.
    #[error("a frame of {len} bytes where {available} can be")]
    Oversize {
        /// What its header says.
        len: u64,
        /// What can be there.
        available: u64,
    },
    /// A reply to nothing.
    #[error("a reply to operation {tag}, which is not under way")]
    UnknownReply {
        /// Which operation it names.
        tag: u32,
    },
    /// More operations at once than was agreed.
    #[error("more than {max} operations under way")]
    TooManyOperations {
        /// The limit.
        max: usize,
    },
    /// A descriptor that is missing, of the wrong size, or not sealed.
    #[error("a memory segment that is {0}")]
    Segment(&'static str),
}

outboard_wire::debug_with_causes!(FrameSendError, LinkError, Loss, Violation);
