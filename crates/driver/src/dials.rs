//! Peers that we connect to.

use std::sync::Arc;
use std::time::Duration;

use outboard_link::{Address, AnyDialing, Exports, Identity};
use outboard_wire::Time;

/// The longest wait between two dials.
pub(crate) const PAUSE_MAX: Duration = Duration::from_secs(2);

/// A peer to connect to, and to connect to again whenever the link is lost.
#[derive(Clone, Debug)]
pub struct Dial {
    /// Where it is.
    pub address: Address,
    /// The identity that we show.
    pub identity: Identity,
    /// The regions that it may reach here.
    pub exports: Arc<Exports>,
    /// Which worker owns the link, by its place among the desk's; any, if none.
    pub worker: Option<usize>,
}

/// Where a dial stands.
pub(crate) enum DialState {
    Rest { until: Time, pause: Duration },
    UnderWay { key: u64, handshake: Box<dyn AnyDialing>, pause: Duration },
    Open,
}
