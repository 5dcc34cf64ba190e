//! The settings of TCP links.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::trust::Trust;
use super::{Credential, Encryption};
use crate::stream::StreamConfig;
use crate::{Address, ConnectError};

/// The settings of TCP links.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// The settings of the stream. Besides its queues a link takes what the kernel keeps for the socket.
    pub stream: StreamConfig,
    /// Whether to listen on and connect to addresses beyond this machine without encryption, if there is no credential
    /// or `encryption` is off; default no.
    pub allow_remote: bool,
    /// Which connections are encrypted; default those between machines. Costs 300 KiB for each link that is.
    pub encryption: Encryption,
    /// The credential that is shown to others, and asked of them, on encrypted connections; default none.
    pub credential: Option<Credential>,
    /// Which slot connections that we make belong to, so that a server with a listener for each of its threads gives those
    /// of one slot to one thread; over IPv6 only; default none.
    pub slot: Option<u8>,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            stream: StreamConfig::default(),
            allow_remote: false,
            encryption: Encryption::Remote,
            credential: None,
            slot: None,
        }
    }
}

/// How a connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection<'a> {
    /// Encrypted, and both sides show this.
    Encrypted(&'a Credential),
    /// Not at all, because it does not leave the machine.
    Unneeded,
    /// Not at all, because the configuration says so.
    Waived,
    /// There is no such connection: it would have to be encrypted, and there is no credential.
    Forbidden,
}

impl fmt::Display for Protection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Encrypted(credential) => write!(f, "encrypted, by {credential}"),
            Self::Unneeded => f.write_str("not encrypted, as it stays within this machine"),
            Self::Waived => f.write_str("not encrypted, as link.allow_remote and link.encryption say"),
            Self::Forbidden => f.write_str("not possible without a credential"),
        }
    }
}

impl TcpConfig {
    /// How a connection to `address` is protected.
    pub fn protection(&self, address: SocketAddr) -> Protection<'_> {
        // A connection to the unspecified address leads to this machine, from a loopback address.
        self.protect(is_loopback(address.ip()) || address.ip().is_unspecified())
    }

    fn protect(&self, is_here: bool) -> Protection<'_> {
        match (self.encryption, &self.credential) {
            (Encryption::Remote, Some(credential)) if !is_here => Protection::Encrypted(credential),
            (Encryption::All, Some(credential)) => Protection::Encrypted(credential),
            (Encryption::All, None) => Protection::Forbidden,
            _ if is_here => Protection::Unneeded,
            _ if self.allow_remote => Protection::Waived,
            _ => Protection::Forbidden,
        }
    }

    /// The trust that connections at `address`, where we listen, start from: `None` if they are not encrypted, an error if they
    /// have to be and cannot.
    pub(super) fn trust_at(&self, address: SocketAddr) -> Result<Option<Trust>, ConnectError> {
        load(self.protection_at(address), address)
    }

    /// How connections with a listener of ours at `address` are protected.
    pub(super) fn protection_at(&self, address: SocketAddr) -> Protection<'_> {
        self.protect(is_loopback(address.ip()))
    }

    /// The trust that a connection to `address` starts from.
    pub(super) fn trust_towards(&self, address: SocketAddr) -> Result<Option<Trust>, ConnectError> {
        load(self.protection(address), address)
    }

    /// Whether a client from there has to speak TLS at a listener that can.
    pub(super) fn expects_tls(&self, from: Option<SocketAddr>) -> bool {
        // The kernel lets no other machine use such an address.
        self.encryption == Encryption::All || !from.is_some_and(|from| is_loopback(from.ip()))
    }
}

fn load(protection: Protection<'_>, address: SocketAddr) -> Result<Option<Trust>, ConnectError> {
    let address = || Address::Tcp(address).to_string();
    match protection {
        Protection::Encrypted(credential) => Trust::load(credential)
            .map(Some)
            .map_err(|source| ConnectError::Credential { address: address(), source }),
        Protection::Unneeded | Protection::Waived => Ok(None),
        Protection::Forbidden => Err(ConnectError::NotLoopback { address: address() }),
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}
