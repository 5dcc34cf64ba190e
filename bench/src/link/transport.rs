//! Opens the measured link between the two processes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outboard_link::{Address, Clock, ConnectError, Exports, Identity, Link, StreamConfig, shm, tcp};
use outboard_wire::{Role, Time};

use crate::BenchError;
use crate::pair::{PATIENCE, spin_until};

/// A kind of link.
pub(super) trait Transport {
    /// Its links.
    type Link: Link;
    /// What waits for connections.
    type Listener;
    /// A connection whose handshake is not finished.
    type Accepting;

    /// Waits at an address of its own choice.
    fn listen() -> Result<(Self::Listener, Address), ConnectError>;

    /// Takes the next connection, if there is one.
    fn accept(listener: &Self::Listener, now: Time) -> Result<Option<Self::Accepting>, ConnectError>;

    /// Goes on with the handshake.
    fn poll(accepting: &mut Self::Accepting, now: Time) -> Result<Option<Self::Link>, ConnectError>;

    /// Connects to the lead.
    fn connect(address: &Address, exports: Arc<Exports>) -> Result<Self::Link, ConnectError>;
}

/// Waits until the peer, which has been told the address, has connected.
pub(super) fn accept<T: Transport>(listener: &T::Listener) -> Result<T::Link, BenchError> {
    let clock = Clock::start();
    let mut accepting = None;
    let link = spin_until("the peer's link", || {
        let step = match &mut accepting {
            None => T::accept(listener, clock.now()).map(|new| {
                accepting = new;
                None
            }),
            Some(accepting) => T::poll(accepting, clock.now()),
        };
        step.transpose()
    })?;
    Ok(link?)
}

pub(super) fn identity() -> Identity {
    Identity::new(Role::Tool, "bench")
}

/// Shared memory.
pub(super) struct Shm;

/// As it is, except that either process may be kept waiting for a processor.
fn shm_config() -> shm::ShmConfig {
    shm::ShmConfig { handshake_timeout: PATIENCE, ..shm::ShmConfig::default() }
}

impl Transport for Shm {
    type Link = shm::ShmLink;
    type Listener = shm::ShmListener;
    type Accepting = shm::ShmAccepting;

    fn listen() -> Result<(Self::Listener, Address), ConnectError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = Address::Abstract(format!("outboard-bench-{}-{number}", std::process::id()));
        let listener = shm::ShmListener::bind(&address, identity(), Exports::new(), shm_config())?;
        Ok((listener, address))
    }

    fn accept(listener: &Self::Listener, now: Time) -> Result<Option<Self::Accepting>, ConnectError> {
        listener.accept(now)
    }

    fn poll(accepting: &mut Self::Accepting, now: Time) -> Result<Option<Self::Link>, ConnectError> {
        accepting.poll(now)
    }

    fn connect(address: &Address, exports: Arc<Exports>) -> Result<Self::Link, ConnectError> {
        shm::connect(address, identity(), exports, shm_config())
    }
}

/// TCP on loopback.
pub(super) struct Tcp;

/// The same, encrypted.
pub(super) struct Tls;

/// A kind of TCP.
trait Configured {
    fn config() -> tcp::TcpConfig;
}

impl Configured for Tcp {
    fn config() -> tcp::TcpConfig {
        let stream =
            StreamConfig { handshake_timeout: PATIENCE, deadline: PATIENCE, ..StreamConfig::default() };
        tcp::TcpConfig { stream, ..tcp::TcpConfig::default() }
    }
}

impl Configured for Tls {
    fn config() -> tcp::TcpConfig {
        // Nothing is kept secret here: it is only measured what that costs.
        let credential = Some(tcp::Credential::Secret("known to each reader of this".into()));
        tcp::TcpConfig { encryption: tcp::Encryption::All, credential, ..Tcp::config() }
    }
}

impl<T: Configured> Transport for T {
    type Link = tcp::TcpLink;
    type Listener = tcp::TcpListener;
    type Accepting = tcp::TcpAccepting;

    fn listen() -> Result<(Self::Listener, Address), ConnectError> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = tcp::TcpListener::bind(any_port, identity(), Exports::new(), T::config())?;
        let address = Address::Tcp(listener.address());
        Ok((listener, address))
    }

    fn accept(listener: &Self::Listener, now: Time) -> Result<Option<Self::Accepting>, ConnectError> {
        listener.accept(now)
    }

    fn poll(accepting: &mut Self::Accepting, now: Time) -> Result<Option<Self::Link>, ConnectError> {
        accepting.poll(now)
    }

    fn connect(address: &Address, exports: Arc<Exports>) -> Result<Self::Link, ConnectError> {
        match address {
            Address::Tcp(address) => tcp::connect(*address, identity(), exports, T::config()),
            other => unreachable!("the lead listens on TCP, not on {other}"),
        }
    }
}
