//! A client's connection to a daemon, by whichever kind of link the daemon's address asks for.
//!
//! The kind is chosen once, when the connection is opened; what a client does with its link is compiled for each kind. A link
//! over a network is shared with the one thread of this process that shows its peer that it lives while the application
//! computes. One through shared memory is not: the kernel tells its peer of a death, and its calls take no lock.

mod agent_finder;
mod in_use;
mod keeper;
mod one_thread;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_link::ofi::OfiLink;
use outboard_link::shm::ShmLink;
use outboard_link::tcp::TcpLink;
use outboard_link::{Address, AnyLink, ConnectError, Exports, Identity, Link, LinkConfigs, RemoteMemory};

pub use agent_finder::AgentFinder;
pub use in_use::InUse;

/// How long to look for answers before sleeping, where looking costs no system call.
const SPIN: Duration = Duration::from_micros(20);

/// The makings of a client, whatever link it will have.
pub trait Over {
    /// The client over a link of one kind.
    type Client<L: Link + RemoteMemory + Send + 'static>: Tend;
    /// The trait object of a client over any kind of link. Calls that take as long as a store or two use the client itself.
    type Any: ?Sized;

    /// Makes the client when its link is open.
    fn over<L: Link + RemoteMemory + Send + 'static>(self, link: L) -> Result<Self::Client<L>, ConnectError>;

    /// The client as a trait object.
    fn any<L: Link + RemoteMemory + Send + 'static>(client: &Self::Client<L>) -> &Self::Any;

    /// The client as a trait object that can be changed.
    fn any_mut<L: Link + RemoteMemory + Send + 'static>(client: &mut Self::Client<L>) -> &mut Self::Any;
}

/// A client with links that have to show that they live.
pub trait Tend: Send + 'static {
    /// Does what there is to do on its links, without waiting. Returns how soon that is wanted again, if there is a time.
    fn tend(&mut self) -> Option<Duration>;
}

/// A client's connection to a daemon.
pub enum Connection<O: Over> {
    /// Within the node.
    Shm(Box<O::Client<ShmLink>>),
    /// Between nodes.
    Tcp(Tended<O::Client<TcpLink>>),
    /// Between nodes of a fabric.
    Ofi(Tended<O::Client<OfiLink>>),
}

impl<O: Over> Connection<O> {
    /// Connects to the daemon at `address`, and makes the client.
    pub fn open(
        address: &Address,
        identity: Identity,
        configs: &LinkConfigs,
        client: O,
    ) -> Result<Self, ConnectError> {
        Ok(match outboard_link::connect(address, identity, Exports::new(), configs)? {
            AnyLink::Shm(link) => Self::Shm(Box::new(client.over(*link)?)),
            AnyLink::Tcp(link) => {
                Self::Tcp(Tended::new(client.over(*link)?, configs.tcp.stream.heartbeat / 2))
            }
            AnyLink::Ofi(link) => {
                Self::Ofi(Tended::new(client.over(*link)?, configs.ofi.stream.heartbeat / 2))
            }
        })
    }

    /// The client, to look at.
    pub fn client(&self) -> InUse<'_, O, &O::Client<ShmLink>> {
        match self {
            Self::Shm(client) => InUse::Own(client),
            Self::Tcp(tended) => InUse::Tcp(tended.lock()),
            Self::Ofi(tended) => InUse::Ofi(tended.lock()),
        }
    }

    /// The client, to do something with.
    pub fn client_mut(&mut self) -> InUse<'_, O, &mut O::Client<ShmLink>> {
        match self {
            Self::Shm(client) => InUse::Own(client),
            Self::Tcp(tended) => InUse::Tcp(tended.lock()),
            Self::Ofi(tended) => InUse::Ofi(tended.lock()),
        }
    }

    /// How long to look for answers before sleeping: not at all, where looking costs a system call.
    pub fn spin(&self) -> Duration {
        match self {
            Self::Shm(_) => outboard_limits::spin(SPIN),
            Self::Tcp(_) | Self::Ofi(_) => Duration::ZERO,
        }
    }
}

/// A client that is shared with the thread that shows that it lives, for as long as it exists.
pub struct Tended<T>(Arc<Mutex<T>>);

impl<T: Tend> Tended<T> {
    /// Has the client tended at least once in each `pause`.
    fn new(client: T, pause: Duration) -> Self {
        let shared = Arc::new(Mutex::new(client));
        let kept = Arc::downgrade(&shared);
        keeper::keep(kept, pause);
        Self(shared)
    }

    /// The client, when the thread is not at it; it never waits while it is.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
