//! The settings of TCP links.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::trust::Trust;
use super::{Credential, Encryption};
use crate::stream::{OPERATIONS_MAX, Terms};
use crate::{Address, ConnectError};

/// The settings of TCP links. The accepting side's count for the heartbeat and the deadline.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes in each of a link's two queues, a power of two from 64 KiB to 1 GiB; default 512 KiB. A link takes
    /// up to twice this in memory, as it is used, and what the kernel keeps for the socket. The longest payload and the longest
    /// one-sided access are a little less than half of it.
    pub buffer_bytes: usize,
    /// How many one-sided operations may be under way or ended and not collected, from 1 to 256; default 256,
    /// about 150 bytes each.
    pub operations_max: usize,
    /// How many regions a peer may hold open, at most 65536; default 1024, 24 bytes each once used.
    pub regions_max: usize,
    /// How long a side says nothing before it shows that it lives, in whole milliseconds; default 500 ms.
    pub heartbeat: Duration,
    /// How long a silence means that the peer is lost, in whole milliseconds; at least two heartbeats; default
    /// 5 s. A one-sided operation that does not end for four times as long while nothing else moves means so too.
    pub deadline: Duration,
    /// How long the other side may say nothing during a handshake, the connecting included; default 2 s.
    pub handshake_timeout: Duration,
    /// Whether to listen on and connect to addresses beyond this machine without encryption, if there is no credential
    /// or `encryption` is off; default no.
    pub allow_remote: bool,
    /// Which connections are encrypted; default those between machines. Costs 300 KiB for each link that is.
    pub encryption: Encryption,
    /// What is shown to others, and asked of them, on encrypted connections; default nothing.
    pub credential: Option<Credential>,
    /// Which slot connections that we make belong to, so that a server with a listener for each of its threads gives those
    /// of one slot to one thread; over IPv6 only; default none.
    pub slot: Option<u8>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buffer_bytes: 1 << 19,
            operations_max: OPERATIONS_MAX,
            regions_max: 1024,
            heartbeat: Duration::from_millis(500),
            deadline: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(2),
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

impl Config {
    pub(super) fn terms(&self) -> Terms {
        Terms {
            buffer_bytes: self.buffer_bytes,
            operations_max: self.operations_max,
            regions_max: self.regions_max,
            heartbeat: self.heartbeat,
            deadline: self.deadline,
            handshake_timeout: self.handshake_timeout,
        }
    }

    /// How a connection to `address` is protected.
    pub fn protection(&self, address: SocketAddr) -> Protection<'_> {
        // Whoever connects to all addresses is connected to this machine, from a loopback address.
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

    /// What connections at `address`, where we listen, start from: `None` if they are not encrypted, an error if they
    /// have to be and cannot.
    pub(super) fn trust_at(&self, address: SocketAddr) -> Result<Option<Trust>, ConnectError> {
        load(self.protection_at(address), address)
    }

    /// How connections with a listener of ours at `address` are protected.
    pub(super) fn protection_at(&self, address: SocketAddr) -> Protection<'_> {
        self.protect(is_loopback(address.ip()))
    }

    /// The same for a connection to `address`.
    pub(super) fn trust_towards(&self, address: SocketAddr) -> Result<Option<Trust>, ConnectError> {
        load(self.protection(address), address)
    }

    /// Whether someone from there has to speak TLS at a listener that can.
    pub(super) fn expects_tls(&self, from: Option<SocketAddr>) -> bool {
        // The kernel lets nobody else use such an address.
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
