//! What a question needs: the peer, the measured link, the settings.

use std::net::SocketAddr;
use std::sync::Arc;

use outboard_link::{Address, Exports};

use super::transport::{Transport, accept};
use crate::BenchError;
use crate::harness::{Effort, Progress};
use crate::pair::{Answer, Control, Cores, Order, Peer};

/// Where the lead measures.
pub(super) struct Stage<'a> {
    pub(super) effort: Effort,
    pub(super) progress: &'a Progress,
    pub(super) cores: &'a Cores,
    pub(super) peer: Peer,
}

impl Stage<'_> {
    /// The socket to the peer.
    pub(super) fn control(&self) -> &Control {
        &self.peer.control
    }

    /// Opens the measured link to the peer, which is told of the bare socket too.
    pub(super) fn meet<T: Transport>(&self, socket: Option<SocketAddr>) -> Result<T::Link, BenchError> {
        let (listener, address) = T::listen()?;
        let core = self.cores.chosen().get(1).copied();
        self.control().send(&Order::Meet { core, link: address.to_string(), socket })?;
        // It may have begun on this core; only when it has left may we spin here.
        self.control().ready()?;
        accept::<T>(&listener)
    }
}

/// What the lead told the peer at the beginning.
pub(super) struct Met<L> {
    pub(super) link: L,
    pub(super) socket: Option<SocketAddr>,
}

/// The peer's side of [`Stage::meet`].
pub(super) fn join<T: Transport>(
    control: &Control,
    exports: Arc<Exports>,
) -> Result<Met<T::Link>, BenchError> {
    let awaited = "where to meet";
    let Order::Meet { core, link, socket } = control.receive(awaited)? else {
        return Err(BenchError::PeerGone { awaited });
    };
    Cores::settle(core)?;
    control.send(&Answer::Ready)?;
    let address: Address = link.parse()?;
    Ok(Met { link: T::connect(&address, exports)?, socket })
}
