//! How two processes come to share a connection.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use outboard_wire::Time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind, connect as connect_socket, getsockname,
    listen, socket_with, sockopt,
};

use super::bytes::TcpBytes;
use super::session::Session;
use super::steer;
use super::trust::Trust;
use super::{Config, Protection, TcpLink, TrustError};
use crate::hello::BACKLOG;
use crate::stream::{self, Setup};
use crate::{Address, Clock, ConnectError, Exports, Identity};

/// A connection that someone made to us and whose handshake is not finished.
pub type Accepting = stream::Accepting<TcpBytes>;
/// A connection that we make and whose handshake is not finished.
pub type Dialing = stream::Dialing<TcpBytes>;

fn open_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

fn shown(address: SocketAddr) -> String {
    Address::Tcp(address).to_string()
}

fn unusable(address: SocketAddr, error: &rustls::Error) -> ConnectError {
    ConnectError::Credential { address: shown(address), source: TrustError::Library(error.to_string()) }
}

/// Accepts TCP links on a port.
pub struct TcpListener {
    socket: OwnedFd,
    address: SocketAddr,
    identity: Identity,
    exports: Arc<Exports>,
    config: Config,
    trust: Option<Trust>,
}

impl TcpListener {
    /// Listens on `address`, which must not be served by another process; port 0 takes any that is free.
    pub fn bind(
        address: SocketAddr,
        identity: Identity,
        exports: Arc<Exports>,
        config: Config,
    ) -> Result<Self, ConnectError> {
        config.terms().check()?;
        let trust = config.trust_at(address)?;
        let failed = |call| {
            move |source| match source {
                Errno::ADDRINUSE => ConnectError::InUse { address: shown(address) },
                source => ConnectError::System { call, address: shown(address), source },
            }
        };
        let socket = open_socket(address).map_err(failed("socket"))?;
        // A port whose last connections are still fading may be used again; one with a listener may not.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("setsockopt"))?;
        bind(&socket, &address).map_err(failed("bind"))?;
        listen(&socket, BACKLOG).map_err(failed("listen"))?;
        let bound = getsockname(&socket).and_then(SocketAddr::try_from).map_err(failed("getsockname"))?;
        Ok(Self { socket, address: bound, identity, exports, config, trust })
    }

    /// Listens on one port with a listener for each of `count` threads, and one more, the last, for connections that belong
    /// to no [slot](Config::slot). Slots are given to the others by turns.
    pub fn bind_by_slot(
        address: SocketAddr,
        count: u8,
        identity: &Identity,
        exports: &Arc<Exports>,
        config: &Config,
    ) -> Result<Vec<Self>, ConnectError> {
        // Listeners that share a port would share it with those of other processes too: whether it is free is found out
        // by one that does not share.
        let free = Self::bind(address, identity.clone(), Arc::clone(exports), config.clone())?;
        let address = free.address;
        let trust = free.trust.clone();
        drop(free);
        let failed = |call| move |source| ConnectError::System { call, address: shown(address), source };
        let mut listeners = Vec::new();
        for _ in 0..=count {
            let socket = open_socket(address).map_err(failed("socket"))?;
            sockopt::set_socket_reuseaddr(&socket, true).map_err(failed("setsockopt"))?;
            sockopt::set_socket_reuseport(&socket, true).map_err(failed("setsockopt"))?;
            bind(&socket, &address).map_err(failed("bind"))?;
            listen(&socket, BACKLOG).map_err(failed("listen"))?;
            let (identity, exports) = (identity.clone(), Arc::clone(exports));
            let (config, trust) = (config.clone(), trust.clone());
            listeners.push(Self { socket, address, identity, exports, config, trust });
        }
        let table = core::array::from_fn(|slot| (slot % usize::from(count.max(1))) as u8);
        if let Some(last) = listeners.last() {
            steer::attach(last.descriptor(), &table, count).map_err(failed("setsockopt"))?;
        }
        Ok(listeners)
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How connections from other machines are protected, or from this one where that is all it listens to.
    pub fn protection(&self) -> Protection<'_> {
        self.config.protection_at(self.address)
    }

    /// Becomes readable when someone connects.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes the next connection, if there is one; its handshake is still to come.
    pub fn accept(&self, now: Time) -> Result<Option<Accepting>, ConnectError> {
        let failed = |source| ConnectError::System { call: "accept", address: shown(self.address), source };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, from) = match acceptfrom_with(&self.socket, flags) {
            Ok((socket, from)) => (socket, from.and_then(|from| SocketAddr::try_from(from).ok())),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(source) => return Err(failed(source)),
        };
        let setup = Setup {
            address: from.map_or_else(|| "an unknown address".to_owned(), shown),
            identity: self.identity.clone(),
            exports: Arc::clone(&self.exports),
            terms: self.config.terms(),
        };
        let mut stream = TcpBytes::new(socket, from, true).map_err(failed)?;
        if let Some(trust) = &self.trust
            && self.config.expects_tls(from)
        {
            let session = Session::accept(trust).map_err(|error| unusable(self.address, &error))?;
            stream = stream.encrypted(session);
        }
        Ok(Some(Accepting::start(stream, setup, now)))
    }
}

impl Dialing {
    /// Begins to connect to `address`.
    pub fn new(
        address: SocketAddr,
        identity: Identity,
        exports: Arc<Exports>,
        config: Config,
        now: Time,
    ) -> Result<Self, ConnectError> {
        let terms = config.terms();
        terms.check()?;
        let trust = config.trust_towards(address)?;
        let failed = |call| move |source| ConnectError::System { call, address: shown(address), source };
        let socket = open_socket(address).map_err(failed("socket"))?;
        let labelled = config.slot.map_or(Ok(address), |slot| steer::label(&socket, address, slot));
        let labelled = labelled.map_err(failed("setsockopt"))?;
        let is_connected = match connect_socket(&socket, &labelled) {
            Ok(()) => true,
            Err(Errno::INPROGRESS | Errno::INTR) => false,
            Err(source) => return Err(ConnectError::Unreachable { address: shown(address), source }),
        };
        let mut stream = TcpBytes::new(socket, Some(address), is_connected).map_err(failed("setsockopt"))?;
        if let Some(trust) = &trust {
            stream = stream.encrypted(Session::dial(trust).map_err(|error| unusable(address, &error))?);
        }
        Ok(Self::start(stream, Setup { address: shown(address), identity, exports, terms }, now))
    }
}

/// Connects to `address` and waits until the link is open; gives up when the other side has said nothing for
/// `config.handshake_timeout`.
pub fn connect(
    address: SocketAddr,
    identity: Identity,
    exports: Arc<Exports>,
    config: Config,
) -> Result<TcpLink, ConnectError> {
    let clock = Clock::start();
    let mut dialing = Dialing::new(address, identity, exports, config, clock.now())?;
    loop {
        if let Some(link) = dialing.poll(clock.now())? {
            return Ok(link);
        }
        let Some(descriptor) = dialing.descriptor() else { continue };
        let events = if dialing.is_connected() { PollFlags::IN } else { PollFlags::OUT };
        let span = dialing.next_look().since(clock.now());
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        // Whatever poll says, the handshake finds out for itself, and it has a deadline.
        let _ = poll(&mut [PollFd::from_borrowed_fd(descriptor, events)], Some(&timeout));
    }
}
