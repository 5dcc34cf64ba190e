//! How two processes come to share a connection.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::Time;
use rustix::event::PollFlags;

use super::bytes::TcpBytes;
use super::session::Session;
use super::steer;
use super::trust::Trust;
use super::{Protection, TcpConfig, TcpLink, TrustError};
use crate::connecting::{self, Connecting};
use crate::port::{self, Port, failed, open_socket};
use crate::stream::{self, Setup};
use crate::{Address, Clock, ConnectError, Exports, Identity};

/// A connection that someone made to us and whose handshake is not finished.
pub type TcpAccepting = stream::Accepting<TcpBytes>;
/// A connection that we make and whose handshake is not finished.
pub type TcpDialing = stream::Dialing<TcpBytes>;

fn shown(address: SocketAddr) -> String {
    Address::Tcp(address).to_string()
}

fn unusable(address: SocketAddr, error: &rustls::Error) -> ConnectError {
    ConnectError::Credential { address: shown(address), source: TrustError::Library(error.to_string()) }
}

/// Accepts TCP links on a port.
pub struct TcpListener {
    port: Port,
    identity: Identity,
    exports: Arc<Exports>,
    config: TcpConfig,
    trust: Option<Trust>,
}

impl TcpListener {
    /// Listens on `address`, which must not be served by another process; port 0 takes any that is free.
    pub fn bind(
        address: SocketAddr,
        identity: Identity,
        exports: Arc<Exports>,
        config: TcpConfig,
    ) -> Result<Self, ConnectError> {
        config.stream.check()?;
        let trust = config.trust_at(address)?;
        Ok(Self { port: Port::bind(shown, address)?, identity, exports, config, trust })
    }

    /// Listens on one port with a listener for each of `count` threads, and one more, the last, for connections that belong
    /// to no [slot](TcpConfig::slot). Slots are given to the others by turns.
    pub fn bind_by_slot(
        address: SocketAddr,
        count: u8,
        identity: &Identity,
        exports: &Arc<Exports>,
        config: &TcpConfig,
    ) -> Result<Vec<Self>, ConnectError> {
        // Listeners that share a port would share it with those of other processes too: whether it is free is found out
        // by one that does not share.
        let free = Self::bind(address, identity.clone(), Arc::clone(exports), config.clone())?;
        let (address, trust) = (free.address(), free.trust.clone());
        drop(free);
        let mut listeners = Vec::new();
        for _ in 0..=count {
            let port = Port::bind_beside(shown, address)?;
            let (identity, exports) = (identity.clone(), Arc::clone(exports));
            let (config, trust) = (config.clone(), trust.clone());
            listeners.push(Self { port, identity, exports, config, trust });
        }
        let table = core::array::from_fn(|slot| (slot % usize::from(count.max(1))) as u8);
        if let Some(last) = listeners.last() {
            steer::attach(last.descriptor(), &table, count).map_err(failed(shown, address, "setsockopt"))?;
        }
        Ok(listeners)
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// How connections from other machines are protected, or from this one where that is all it listens to.
    pub fn protection(&self) -> Protection<'_> {
        self.config.protection_at(self.address())
    }

    /// Becomes readable when someone connects.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.port.descriptor()
    }

    /// Takes the next connection, if there is one; its handshake is still to come.
    pub fn accept(&self, now: Time) -> Result<Option<TcpAccepting>, ConnectError> {
        let Some((socket, from)) = self.port.accept()? else { return Ok(None) };
        let setup = Setup {
            address: self.port.shown(from),
            identity: self.identity.clone(),
            exports: Arc::clone(&self.exports),
            terms: self.config.stream.clone(),
        };
        let unusable_socket = failed(shown, self.address(), "setsockopt");
        let mut stream = TcpBytes::new(socket, from, true).map_err(unusable_socket)?;
        if let Some(trust) = &self.trust
            && self.config.expects_tls(from)
        {
            let session = Session::accept(trust).map_err(|error| unusable(self.address(), &error))?;
            stream = stream.encrypted(session);
        }
        Ok(Some(TcpAccepting::start(stream, setup, now)))
    }
}

impl TcpDialing {
    /// Begins to connect to `address`.
    pub fn new(
        address: SocketAddr,
        identity: Identity,
        exports: Arc<Exports>,
        config: TcpConfig,
        now: Time,
    ) -> Result<Self, ConnectError> {
        let terms = config.stream.clone();
        terms.check()?;
        let trust = config.trust_towards(address)?;
        let socket = open_socket(shown, address)?;
        let labelled = config.slot.map_or(Ok(address), |slot| steer::label(&socket, address, slot));
        let labelled = labelled.map_err(failed(shown, address, "setsockopt"))?;
        let is_connected = port::dial(&socket, shown, labelled)?;
        let stream = TcpBytes::new(socket, Some(address), is_connected);
        let mut stream = stream.map_err(failed(shown, address, "setsockopt"))?;
        if let Some(trust) = &trust {
            stream = stream.encrypted(Session::dial(trust).map_err(|error| unusable(address, &error))?);
        }
        Ok(Self::start(stream, Setup { address: shown(address), identity, exports, terms }, now))
    }
}

/// Connects to `address` and waits until the link is open; gives up when the other side has said nothing for
/// `config.stream.handshake_timeout`.
pub fn connect(
    address: SocketAddr,
    identity: Identity,
    exports: Arc<Exports>,
    config: TcpConfig,
) -> Result<TcpLink, ConnectError> {
    let clock = Clock::start();
    connecting::finish(TcpDialing::new(address, identity, exports, config, clock.now())?, clock)
}

impl Connecting for TcpDialing {
    type Link = TcpLink;

    fn go_on(&mut self, now: Time) -> Result<Option<TcpLink>, ConnectError> {
        self.poll(now)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Self::descriptor(self)
    }

    fn awaits(&self, now: Time) -> Option<(PollFlags, Duration)> {
        let events = if self.is_connected() { PollFlags::IN } else { PollFlags::OUT };
        Some((events, self.next_look().since(now)))
    }
}
