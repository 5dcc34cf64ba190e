//! What goes wrong on a link, told with the peer's name.

use std::time::Duration;

use outboard_wire::{DecodeError, Refusal};
use rustix::io::Errno;
use thiserror::Error;

use crate::Peer;
use crate::shortage::explain;
use crate::tcp::{Distrust, TrustError};

/// Why a frame was not taken.
#[derive(Clone, Error)]
pub enum SendError {
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
    /// What happened.
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
    pub(crate) fn by_goodbye(code: u16, reason: &str) -> Self {
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

/// Why a link could not be opened.
#[derive(Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there, or the network says no.
    #[error("cannot reach {address}: {source}; is the process started and the address right?")]
    Unreachable {
        /// Where.
        address: String,
        /// Why.
        source: Errno,
    },
    /// The peer did not answer in time.
    #[error("{address} did not finish its handshake within {waited:?}")]
    TimedOut {
        /// Where.
        address: String,
        /// How long it was given.
        waited: Duration,
    },
    /// The peer hung up during the handshake.
    #[error("{address} hung up during the handshake")]
    HungUp {
        /// Where.
        address: String,
    },
    /// The peer speaks something else.
    #[error("{address} does not speak this protocol: {source}")]
    Garbage {
        /// Where.
        address: String,
        /// What was wrong.
        source: DecodeError,
    },
    /// The peer said no.
    #[error("{address} refused: {}", .refusal.detail)]
    Refused {
        /// Where.
        address: String,
        /// In its own words.
        refusal: Box<Refusal>,
    },
    /// This side said no.
    #[error("turned {address} away: {}", .refusal.detail)]
    TurnedAway {
        /// Where.
        address: String,
        /// What it was told.
        refusal: Box<Refusal>,
    },
    /// The peer's segment cannot be trusted.
    #[error("{address} sent something unusable: {source}")]
    Violation {
        /// Where.
        address: String,
        /// What was wrong.
        source: Violation,
    },
    /// An address that is already served.
    #[error("{address} is already in use: another process listens there; stop it or choose another address")]
    InUse {
        /// Where.
        address: String,
    },
    /// A path at which something else is.
    #[error("{address} exists and is no socket; remove it, or choose another path")]
    NoSocket {
        /// Where.
        address: String,
    },
    /// A setting that cannot work.
    #[error("{what} cannot be {value}: {why}")]
    Configuration {
        /// Which setting.
        what: &'static str,
        /// What it was set to.
        value: u64,
        /// Why not.
        why: &'static str,
    },
    /// An address beyond this machine, without a credential or leave.
    #[error(
        "{address} is not a loopback address, and there is no credential: make one by `outboard keys init`, or set \
         link.secret on both sides (link.allow_remote goes without, unencrypted)"
    )]
    NotLoopback {
        /// Where.
        address: String,
    },
    /// Without libfabric there is no such link.
    #[error("no link to {address}: {source}")]
    Fabric {
        /// Where.
        address: String,
        /// Why.
        source: crate::ofi::FabricError,
    },
    /// A link that cannot be encrypted, to an address beyond this machine, without leave.
    #[error(
        "{address} is not a loopback address, and links over a fabric are not encrypted; set link.allow_remote if you \
         trust everyone on it"
    )]
    NeverEncrypted {
        /// Where.
        address: String,
    },
    /// The two sides do not trust each other.
    #[error("no trust between us and {address}: {source}")]
    Untrusted {
        /// Where.
        address: String,
        /// Why.
        source: Distrust,
    },
    /// What we would show cannot be used.
    #[error("no encrypted link with {address}: {source}")]
    Credential {
        /// Where.
        address: String,
        /// What is wrong with it.
        source: TrustError,
    },
    /// The operating system refused.
    #[error("{call} for {address} failed: {}", explain(*source))]
    System {
        /// Which call.
        call: &'static str,
        /// Where.
        address: String,
        /// Why.
        source: Errno,
    },
}

outboard_wire::debug_with_causes!(SendError, LinkError, Loss, Violation, ConnectError);

impl ConnectError {
    /// Whom it was about, as far as that is known: an address, with the port by which it came.
    pub fn peer(&self) -> Option<&str> {
        match self {
            Self::Configuration { .. } => None,
            Self::Unreachable { address, .. }
            | Self::TimedOut { address, .. }
            | Self::HungUp { address }
            | Self::Garbage { address, .. }
            | Self::Refused { address, .. }
            | Self::TurnedAway { address, .. }
            | Self::Violation { address, .. }
            | Self::InUse { address }
            | Self::NoSocket { address }
            | Self::NotLoopback { address }
            | Self::Fabric { address, .. }
            | Self::NeverEncrypted { address }
            | Self::Untrusted { address, .. }
            | Self::Credential { address, .. }
            | Self::System { address, .. } => Some(address),
        }
    }
}
