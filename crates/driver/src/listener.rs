//! Where connections come in.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use outboard_link::ofi::OfiListener;
use outboard_link::shm::ShmListener;
use outboard_link::tcp::{self, TcpListener};
use outboard_link::{Address, ConnectError, Exports, Identity};
use outboard_wire::Time;

use crate::desk::FrontDeskConfig;
use crate::pending::Incoming;

/// Where connections come in.
pub enum Listener {
    /// From processes of this node.
    Shm(ShmListener),
    /// From other nodes.
    Tcp(TcpListener),
    /// From other nodes, for one worker, by its place among the desk's.
    TcpOf(TcpListener, usize),
    /// From other nodes of a fabric.
    Ofi(OfiListener),
}

impl Listener {
    /// Listens on `address`, by the link that belongs to it.
    pub fn bind(
        address: &Address,
        identity: &Identity,
        exports: &Arc<Exports>,
        config: &FrontDeskConfig,
    ) -> Result<Self, ConnectError> {
        let (identity, exports) = (identity.clone(), Arc::clone(exports));
        match address {
            Address::Abstract(_) | Address::Path(_) => {
                ShmListener::bind(address, identity, exports, config.links.shm.clone()).map(Self::Shm)
            }
            Address::Tcp(socket) => {
                TcpListener::bind(*socket, identity, exports, config.links.tcp.clone()).map(Self::Tcp)
            }
            Address::Ofi(socket) => {
                OfiListener::bind(*socket, identity, exports, config.links.ofi.clone()).map(Self::Ofi)
            }
        }
    }

    /// Has a listener for each of so many workers, where connections can say to which they belong: their slot
    /// tells, and those without one may go to any worker.
    pub fn bind_for_workers(
        address: &Address,
        workers: usize,
        identity: &Identity,
        exports: &Arc<Exports>,
        config: &FrontDeskConfig,
    ) -> Result<Vec<Self>, ConnectError> {
        match (address, u8::try_from(workers)) {
            (Address::Tcp(socket), Ok(count)) if socket.is_ipv6() && count > 1 => {
                let listeners =
                    TcpListener::bind_by_slot(*socket, count, identity, exports, &config.links.tcp)?;
                // The first one's connections may go to any worker, so that its address is the one that is shown.
                let numbered = listeners.into_iter().enumerate().rev();
                let of = |(number, listener)| match number < workers {
                    true => Self::TcpOf(listener, number),
                    false => Self::Tcp(listener),
                };
                Ok(numbered.map(of).collect())
            }
            _ => Ok(vec![Self::bind(address, identity, exports, config)?]),
        }
    }

    /// The worker whose connections come in here, if they may not go to any.
    pub fn worker(&self) -> Option<usize> {
        if let Self::TcpOf(_, worker) = self { Some(*worker) } else { None }
    }

    /// Where it listens; a port that was left to the system is filled in.
    pub fn address(&self) -> Address {
        match self {
            Self::Shm(listener) => listener.address().clone(),
            Self::Tcp(listener) | Self::TcpOf(listener, _) => Address::Tcp(listener.address()),
            Self::Ofi(listener) => Address::Ofi(listener.address()),
        }
    }

    /// How connections that come in here are protected, where they may come from elsewhere.
    pub fn protection(&self) -> Option<tcp::Protection<'_>> {
        if let Self::Tcp(listener) = self { Some(listener.protection()) } else { None }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Shm(listener) => listener.descriptor(),
            Self::Tcp(listener) | Self::TcpOf(listener, _) => listener.descriptor(),
            Self::Ofi(listener) => listener.descriptor(),
        }
    }

    /// Whether handshakes here take megabytes.
    pub(crate) fn is_dear(&self) -> bool {
        matches!(self, Self::Ofi(_))
    }

    pub(crate) fn accept(&self, now: Time) -> Result<Option<Box<dyn Incoming>>, ConnectError> {
        fn boxed(handshake: impl Incoming + 'static) -> Box<dyn Incoming> {
            Box::new(handshake)
        }
        Ok(match self {
            Self::Shm(listener) => listener.accept(now)?.map(boxed),
            Self::Tcp(listener) | Self::TcpOf(listener, _) => listener.accept(now)?.map(boxed),
            Self::Ofi(listener) => listener.accept(now)?.map(boxed),
        })
    }
}
