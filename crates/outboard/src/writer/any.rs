//! The links of a writer, of whichever kind the addresses ask for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_driver::writing::WriterLinks;
use outboard_link::ofi::{self, OfiLink};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{
    AccessError, Address, Clock, ConnectError, Exports, Identity, Link, LinkError, Peer, RemoteMemory,
};
use outboard_settings::LinkSettings;
use outboard_wire::{Grant, Time};
use outboard_writing::{BeginError, Completed, PolicyExplanation, Write, WriteId, WriterCounts};

use super::WriterOptions;
use crate::any_link::AnyLink;

/// How long to look for answers before sleeping, where looking costs no system call.
const SPIN: Duration = Duration::from_micros(20);

/// A writer over one kind of link. Chosen once, when connecting.
pub(super) enum AnyWriter {
    Shm(Box<WriterLinks<ShmLink, AnyLink>>),
    /// Shared with the thread that shows that we live while the application computes.
    Tcp(Arc<Mutex<WriterLinks<TcpLink, AnyLink>>>),
    /// As over TCP.
    Ofi(Arc<Mutex<WriterLinks<OfiLink, AnyLink>>>),
}

macro_rules! on {
    ($any:expr, $writer:ident => $body:expr) => {
        match $any {
            AnyWriter::Shm($writer) => $body,
            AnyWriter::Tcp(shared) => {
                let $writer = &mut *lock(shared);
                $body
            }
            AnyWriter::Ofi(shared) => {
                let $writer = &mut *lock(shared);
                $body
            }
        }
    };
}

fn lock<L: Link + RemoteMemory>(
    shared: &Mutex<WriterLinks<L, AnyLink>>,
) -> MutexGuard<'_, WriterLinks<L, AnyLink>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Apart from the rest, so that a write that ends at once is no more than a few checks and a copy.
#[inline(never)]
fn begin_shared<L: Link + RemoteMemory>(
    shared: &Mutex<WriterLinks<L, AnyLink>>,
    write: Write<'_>,
) -> Result<WriteId, BeginError> {
    lock(shared).begin(&write)
}

impl AnyWriter {
    pub(super) fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
        options: WriterOptions,
    ) -> Result<Self, ConnectError> {
        let config = options.config();
        let agent = options.agent.as_ref().and_then(|agent| {
            let link = AnyLink::connect(agent, identity.clone(), settings);
            link.inspect_err(|error| tracing::warn!("unloading without the agent: {error}")).ok()
        });
        let exports = Exports::new();
        match address {
            Address::Tcp(socket) => {
                let link = tcp::connect(*socket, identity, exports, settings.tcp())?;
                let writer = WriterLinks::new(link, agent, config);
                let shared = Arc::new(Mutex::new(writer));
                keep_alive(&shared, settings.heartbeat / 2);
                Ok(Self::Tcp(shared))
            }
            Address::Ofi(socket) => {
                let link = ofi::connect(*socket, identity, exports, settings.ofi())?;
                let writer = WriterLinks::new(link, agent, config);
                let shared = Arc::new(Mutex::new(writer));
                keep_alive(&shared, settings.heartbeat / 2);
                Ok(Self::Ofi(shared))
            }
            address => {
                let link = shm::connect(address, identity, exports, settings.shm())?;
                Ok(Self::Shm(Box::new(WriterLinks::new(link, agent, config))))
            }
        }
    }

    pub(super) fn drain_by(
        &mut self,
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
    ) -> Result<(), ConnectError> {
        let agent = AnyLink::connect(address, identity, settings)?;
        on!(self, writer => writer.drain_by(agent));
        Ok(())
    }

    pub(super) fn open(&mut self, grant: &Grant, patience: Duration) -> Result<u32, AccessError> {
        on!(self, writer => writer.open(grant, patience))
    }

    pub(super) fn close_region(&mut self, slot: u32) {
        on!(self, writer => writer.close_region(slot));
    }

    pub(super) fn longest(&self) -> usize {
        on!(self, writer => writer.initiator().longest())
    }

    #[inline]
    pub(super) fn begin(&mut self, write: &Write<'_>) -> Result<WriteId, BeginError> {
        match self {
            Self::Shm(writer) => writer.begin(write),
            Self::Tcp(shared) => begin_shared(shared, *write),
            Self::Ofi(shared) => begin_shared(shared, *write),
        }
    }

    pub(super) fn judge(&self, slot: u32, offset: u64, len: usize) -> Result<(), AccessError> {
        on!(self, writer => writer.initiator().judge(slot, offset, len))
    }

    pub(super) fn turn(&mut self) -> bool {
        on!(self, writer => writer.turn())
    }

    pub(super) fn next_completed(&mut self) -> Option<Completed> {
        on!(self, writer => writer.initiator_mut().next_completed())
    }

    pub(super) fn set_untold_max(&mut self, most: usize) {
        on!(self, writer => writer.initiator_mut().set_untold_max(most));
    }

    pub(super) fn fence(&mut self) {
        on!(self, writer => writer.initiator_mut().fence());
    }

    pub(super) fn is_idle(&self) -> bool {
        on!(self, writer => writer.initiator().is_idle())
    }

    pub(super) fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        on!(self, writer => writer.sleep(limit))
    }

    pub(super) fn lost(&self) -> Option<LinkError> {
        on!(self, writer => writer.initiator().lost().cloned())
    }

    /// Who is awaited when something takes long.
    pub(super) fn awaited(&self) -> Peer {
        on!(self, writer => writer.awaited().clone())
    }

    /// After half of it an agent that does not answer is done without.
    pub(super) fn set_patience(&mut self, patience: Duration) {
        on!(self, writer => writer.initiator_mut().set_relay_patience(patience / 2));
    }

    pub(super) fn clock(&self) -> Clock {
        on!(self, writer => writer.clock())
    }

    pub(super) fn spin(&self) -> Duration {
        match self {
            Self::Shm(_) => outboard_limits::spin(SPIN),
            Self::Tcp(_) | Self::Ofi(_) => Duration::ZERO,
        }
    }

    pub(super) fn counts(&self) -> WriterCounts {
        on!(self, writer => writer.initiator().counts())
    }

    pub(super) fn explain(&self) -> PolicyExplanation {
        on!(self, writer => writer.initiator().explain(writer.clock().now()))
    }

    pub(super) fn drained_by(&self) -> String {
        on!(self, writer => writer.drained_by().to_string())
    }

    pub(super) fn close(&mut self) {
        on!(self, writer => writer.close());
    }
}

/// Lets the link show that it lives while the application computes and makes no calls. Ends with the writer.
fn keep_alive<L>(shared: &Arc<Mutex<WriterLinks<L, AnyLink>>>, pause: Duration)
where
    L: Link + RemoteMemory + Send + 'static,
{
    let shared = Arc::downgrade(shared);
    let pause = pause.max(Duration::from_millis(1));
    let beat = move || {
        while let Some(writer) = shared.upgrade() {
            // Whoever holds the lock is in a call, and that shows that we live.
            if let Ok(mut writer) = writer.try_lock() {
                writer.turn();
            }
            drop(writer);
            std::thread::park_timeout(pause);
        }
    };
    // Without the thread the application must not be silent for as long as the deadline; it still works.
    if let Err(error) = std::thread::Builder::new().name("outboard-alive".to_owned()).spawn(beat) {
        tracing::warn!("no thread to keep a writer's link alive: {error}");
    }
}
