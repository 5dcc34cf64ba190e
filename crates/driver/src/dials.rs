//! Peers that we connect to.

use std::sync::Arc;
use std::time::Duration;

use outboard_link::{Address, ConnectError, Exports, Identity, ofi, shm, tcp};
use outboard_wire::Time;

use crate::desk::FrontDeskConfig;
use crate::pending::Outgoing;

/// The longest wait between two dials.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A peer to connect to, and to connect to again whenever the link is lost.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Where it is.
    pub address: Address,
    /// Whom we say we are.
    pub identity: Identity,
    /// What it may reach here.
    pub exports: Arc<Exports>,
    /// Which worker owns the link, by its place among the desk's; any, if none.
    pub worker: Option<usize>,
}

/// Where a dial stands.
pub(crate) enum DialState {
    Rest { until: Time, pause: Duration },
    UnderWay { key: u64, handshake: Box<dyn Outgoing>, pause: Duration },
    Open,
}

/// Begins to connect.
pub(crate) fn begin(
    dial: &Dial,
    config: &FrontDeskConfig,
    now: Time,
) -> Result<Box<dyn Outgoing>, ConnectError> {
    let (identity, exports) = (dial.identity.clone(), Arc::clone(&dial.exports));
    Ok(match &dial.address {
        Address::Tcp(socket) => {
            Box::new(tcp::Dialing::new(*socket, identity, exports, config.tcp.clone(), now)?)
        }
        Address::Ofi(socket) => {
            Box::new(ofi::Dialing::new(*socket, identity, exports, config.ofi.clone(), now)?)
        }
        address => Box::new(shm::Dialing::new(address, identity, exports, config.shm.clone(), now)?),
    })
}
