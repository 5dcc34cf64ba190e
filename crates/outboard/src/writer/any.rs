//! The links of a writer, of whichever kind the addresses ask for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_driver::writing::{BeginError, Completed, Initiator, Relay, draw_identity};
use outboard_link::ofi::{self, OfiLink};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{
    AccessError, Address, Clock, ConnectError, Exports, Identity, Link, LinkError, Peer, RemoteMemory,
};
use outboard_settings::LinkSettings;
use outboard_wire::{Grant, Time};
use outboard_writing::{PolicyExplanation, Write, WriteId, WriterCounts};

use super::WriterOptions;

/// How long to look for answers before sleeping, where looking costs no system call.
const SPIN: Duration = Duration::from_micros(20);

/// A writer over one kind of link. Chosen once, when connecting.
pub(super) enum AnyInitiator {
    Shm(Box<Initiator<ShmLink>>),
    /// Shared with the thread that shows that we live while the application computes.
    Tcp(Arc<Mutex<Initiator<TcpLink>>>),
    /// As over TCP.
    Ofi(Arc<Mutex<Initiator<OfiLink>>>),
}

macro_rules! on {
    ($any:expr, $initiator:ident => $body:expr) => {
        match $any {
            AnyInitiator::Shm($initiator) => $body,
            AnyInitiator::Tcp(shared) => {
                let $initiator = &mut *lock(shared);
                $body
            }
            AnyInitiator::Ofi(shared) => {
                let $initiator = &mut *lock(shared);
                $body
            }
        }
    };
}

fn lock<L: Link + RemoteMemory>(shared: &Mutex<Initiator<L>>) -> MutexGuard<'_, Initiator<L>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Apart from the rest, so that a write that ends at once is no more than a few checks and a copy.
#[inline(never)]
fn begin_shared<L: Link + RemoteMemory>(
    shared: &Mutex<Initiator<L>>,
    write: Write<'_>,
) -> Result<WriteId, BeginError> {
    lock(shared).begin(&write)
}

impl AnyInitiator {
    pub(super) fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
        options: WriterOptions,
    ) -> Result<Self, ConnectError> {
        let config = options.config();
        let relay = options.agent.as_ref().and_then(|agent| {
            let relay = dial(agent, identity.clone(), settings);
            relay.inspect_err(|error| tracing::warn!("unloading without the agent: {error}")).ok()
        });
        let exports = Exports::new();
        match address {
            Address::Tcp(socket) => {
                let link = tcp::connect(*socket, identity, exports, settings.tcp())?;
                let initiator = Initiator::new(link, relay, draw_identity(), config);
                let shared = Arc::new(Mutex::new(initiator));
                keep_alive(&shared, settings.heartbeat / 2);
                Ok(Self::Tcp(shared))
            }
            Address::Ofi(socket) => {
                let link = ofi::connect(*socket, identity, exports, settings.ofi())?;
                let initiator = Initiator::new(link, relay, draw_identity(), config);
                let shared = Arc::new(Mutex::new(initiator));
                keep_alive(&shared, settings.heartbeat / 2);
                Ok(Self::Ofi(shared))
            }
            address => {
                let link = shm::connect(address, identity, exports, settings.shm())?;
                Ok(Self::Shm(Box::new(Initiator::new(link, relay, draw_identity(), config))))
            }
        }
    }

    pub(super) fn drain_by(
        &mut self,
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
    ) -> Result<(), ConnectError> {
        let relay = dial(address, identity, settings)?;
        on!(self, initiator => initiator.drain_by(Some(relay)));
        Ok(())
    }

    pub(super) fn open(&mut self, grant: &Grant, patience: Duration) -> Result<u32, AccessError> {
        on!(self, initiator => initiator.open(grant, patience))
    }

    pub(super) fn close_region(&mut self, slot: u32) {
        on!(self, initiator => initiator.close_region(slot));
    }

    pub(super) fn longest(&self) -> usize {
        on!(self, initiator => initiator.longest())
    }

    #[inline]
    pub(super) fn begin(&mut self, write: &Write<'_>) -> Result<WriteId, BeginError> {
        match self {
            Self::Shm(initiator) => initiator.begin(write),
            Self::Tcp(shared) => begin_shared(shared, *write),
            Self::Ofi(shared) => begin_shared(shared, *write),
        }
    }

    pub(super) fn judge(&self, slot: u32, offset: u64, len: usize) -> Result<(), AccessError> {
        on!(self, initiator => initiator.judge(slot, offset, len))
    }

    pub(super) fn turn(&mut self) -> bool {
        on!(self, initiator => initiator.turn())
    }

    pub(super) fn next_completed(&mut self) -> Option<Completed> {
        on!(self, initiator => initiator.next_completed())
    }

    pub(super) fn set_untold_max(&mut self, most: usize) {
        on!(self, initiator => initiator.set_untold_max(most));
    }

    pub(super) fn fence(&mut self) {
        on!(self, initiator => initiator.fence());
    }

    pub(super) fn is_idle(&self) -> bool {
        on!(self, initiator => initiator.is_idle())
    }

    pub(super) fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        on!(self, initiator => initiator.sleep(limit))
    }

    pub(super) fn lost(&self) -> Option<LinkError> {
        on!(self, initiator => initiator.lost().cloned())
    }

    /// Who is awaited when something takes long.
    pub(super) fn awaited(&self) -> Peer {
        on!(self, initiator => initiator.awaited().clone())
    }

    /// After half of it an agent that does not answer is done without.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        on!(self, initiator => initiator.set_relay_patience(patience / 2));
    }

    pub(super) fn clock(&self) -> Clock {
        on!(self, initiator => initiator.clock())
    }

    pub(super) fn spin(&self) -> Duration {
        match self {
            Self::Shm(_) => outboard_limits::spin(SPIN),
            Self::Tcp(_) | Self::Ofi(_) => Duration::ZERO,
        }
    }

    pub(super) fn counts(&self) -> WriterCounts {
        on!(self, initiator => initiator.counts())
    }

    pub(super) fn explain(&self) -> PolicyExplanation {
        on!(self, initiator => initiator.explain())
    }

    pub(super) fn drained_by(&self) -> String {
        on!(self, initiator => match initiator.relay() {
            Some(relay) => relay.peer().to_string(),
            None => initiator.link().peer().to_string(),
        })
    }

    pub(super) fn close(&mut self) {
        on!(self, initiator => initiator.close());
    }
}

fn dial(address: &Address, identity: Identity, settings: &LinkSettings) -> Result<Relay, ConnectError> {
    let exports = Exports::new();
    Ok(match address {
        Address::Tcp(socket) => {
            Relay::Tcp(Box::new(tcp::connect(*socket, identity, exports, settings.tcp())?))
        }
        Address::Ofi(socket) => {
            Relay::Ofi(Box::new(ofi::connect(*socket, identity, exports, settings.ofi())?))
        }
        address => Relay::Shm(Box::new(shm::connect(address, identity, exports, settings.shm())?)),
    })
}

/// Lets the link show that it lives while the application computes and makes no calls. Ends with the writer.
fn keep_alive<L>(shared: &Arc<Mutex<Initiator<L>>>, pause: Duration)
where
    L: Link + RemoteMemory + Send + 'static,
{
    let shared = Arc::downgrade(shared);
    let pause = pause.max(Duration::from_millis(1));
    let beat = move || {
        while let Some(initiator) = shared.upgrade() {
            // Whoever holds the lock is in a call, and that shows that we live.
            if let Ok(mut initiator) = initiator.try_lock() {
                initiator.turn();
            }
            drop(initiator);
            std::thread::park_timeout(pause);
        }
    };
    // Without the thread the application must not be silent for as long as the deadline; it still works.
    if let Err(error) = std::thread::Builder::new().name("outboard-alive".to_owned()).spawn(beat) {
        tracing::warn!("no thread to keep a writer's link alive: {error}");
    }
}
