//! The link of a caller, of whichever kind the address asks for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_calling::FunctionImage;
use outboard_driver::calling::{
    CallBeginError, CallEnded, CallOutcome, RegisterError, SiteLink, Wanted, draw_caller,
};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{Address, Clock, ConnectError, Exports, Identity, Link, LinkError, Peer};
use outboard_settings::LinkSettings;
use outboard_wire::{Flow, Time};

/// How long to look for answers before sleeping, where looking costs no system call.
const SPIN: Duration = Duration::from_micros(20);

/// A caller over one kind of link. Chosen once, when connecting.
pub(super) enum AnySite {
    Shm(Box<SiteLink<ShmLink>>),
    /// Shared with the thread that shows that we live while the application computes.
    Tcp(Arc<Mutex<SiteLink<TcpLink>>>),
}

macro_rules! on {
    ($any:expr, $site:ident => $body:expr) => {
        match $any {
            AnySite::Shm($site) => $body,
            AnySite::Tcp(shared) => {
                let $site = &mut *lock(shared);
                $body
            }
        }
    };
}

fn lock(shared: &Mutex<SiteLink<TcpLink>>) -> MutexGuard<'_, SiteLink<TcpLink>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AnySite {
    pub(super) fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
        under_way_max: usize,
    ) -> Result<Self, ConnectError> {
        let exports = Exports::new();
        match address {
            Address::Tcp(socket) => {
                let link = tcp::connect(*socket, identity, exports, settings.tcp())?;
                let shared = Arc::new(Mutex::new(SiteLink::new(link, draw_caller(), under_way_max)));
                keep_alive(&shared, settings.heartbeat / 2);
                Ok(Self::Tcp(shared))
            }
            address => {
                let link = shm::connect(address, identity, exports, settings.shm())?;
                Ok(Self::Shm(Box::new(SiteLink::new(link, draw_caller(), under_way_max))))
            }
        }
    }

    pub(super) fn register(
        &mut self,
        image: &FunctionImage,
        wanted: Wanted,
        patience: Duration,
    ) -> Result<(), RegisterError> {
        on!(self, site => site.register(image, wanted, patience))
    }

    #[inline]
    pub(super) fn begin(
        &mut self,
        handle: u32,
        key: Flow,
        arguments: &[u8],
        patience: Option<Duration>,
    ) -> Result<u64, CallBeginError> {
        on!(self, site => site.begin(handle, key, arguments, patience))
    }

    pub(super) fn flush(&mut self) {
        on!(self, site => site.flush());
    }

    #[inline]
    pub(super) fn turn(&mut self, tell: impl FnMut(u64, CallOutcome<'_>)) -> bool {
        on!(self, site => site.turn(tell))
    }

    pub(super) fn turn_and_keep(&mut self) -> bool {
        on!(self, site => site.turn_and_keep())
    }

    pub(super) fn next_kept(&mut self) -> Option<CallEnded> {
        on!(self, site => site.next_kept())
    }

    pub(super) fn put_back(&mut self, ended: Vec<CallEnded>) {
        on!(self, site => site.put_back(ended));
    }

    pub(super) fn sleep(&mut self, limit: Time) -> Result<(), LinkError> {
        on!(self, site => site.sleep(limit))
    }

    pub(super) fn under_way(&self) -> usize {
        on!(self, site => site.under_way())
    }

    pub(super) fn lost(&self) -> Option<LinkError> {
        on!(self, site => site.lost().cloned())
    }

    pub(super) fn peer(&self) -> Peer {
        on!(self, site => site.link().peer().clone())
    }

    pub(super) fn clock(&self) -> Clock {
        on!(self, site => site.clock())
    }

    pub(super) fn spin(&self) -> Duration {
        match self {
            Self::Shm(_) => SPIN,
            Self::Tcp(_) => Duration::ZERO,
        }
    }

    pub(super) fn close(&mut self) {
        on!(self, site => site.close());
    }
}

/// Lets the link show that it lives while the application computes and makes no calls. Ends with the caller.
fn keep_alive(shared: &Arc<Mutex<SiteLink<TcpLink>>>, pause: Duration) {
    let shared = Arc::downgrade(shared);
    let pause = pause.max(Duration::from_millis(1));
    let beat = move || {
        while let Some(site) = shared.upgrade() {
            // Whoever holds the lock is in a call, and that shows that we live.
            if let Ok(mut site) = site.try_lock() {
                site.turn_and_keep();
            }
            drop(site);
            std::thread::park_timeout(pause);
        }
    };
    // Without the thread the application must not be silent for as long as the deadline; it still works.
    if let Err(error) = std::thread::Builder::new().name("outboard-alive".to_owned()).spawn(beat) {
        tracing::warn!("no thread to keep a caller's link alive: {error}");
    }
}
