//! Why a link could not be opened.

use std::time::Duration;

use outboard_limits::explain;
use outboard_wire::{DecodeError, Refusal};
use rustix::io::Errno;
use thiserror::Error;

use crate::Violation;
use crate::tcp::{Distrust, TrustError};

/// Why a link could not be opened.
#[derive(Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No process listens there, or the network says no.
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
        /// The fault.
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
        /// The refusal that it was told.
        refusal: Box<Refusal>,
    },
    /// The peer's segment cannot be trusted.
    #[error("{address} sent something unusable: {source}")]
    Violation {
        /// Where.
        address: String,
        /// The fault.
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
    /// A path in a folder that is not there.
    #[error("the folder of {address} does not exist; make it, or choose another path")]
    NoFolder {
        /// Where.
        address: String,
    },
    /// A setting that cannot work.
    #[error("{what} cannot be {value}: {why}")]
    Configuration {
        /// Which setting.
        what: &'static str,
        /// The value that it was set to.
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
    /// Our own credential cannot be used.
    #[error("no encrypted link with {address}: {source}")]
    Credential {
        /// Where.
        address: String,
        /// The fault in it.
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

outboard_wire::debug_with_causes!(ConnectError);

impl ConnectError {
    /// The peer that it was about, as far as that is known: an address, with the port by which it came.
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
            | Self::NoFolder { address }
            | Self::NotLoopback { address }
            | Self::Fabric { address, .. }
            | Self::NeverEncrypted { address }
            | Self::Untrusted { address, .. }
            | Self::Credential { address, .. }
            | Self::System { address, .. } => Some(address),
        }
    }
}
