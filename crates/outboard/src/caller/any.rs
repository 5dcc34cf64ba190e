//! The link of a caller, of whichever kind the address asks for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_calling::{
    Begin, CallBeginError, CallEnded, CallOutcome, Dispatcher, DispatcherConfig, FunctionImage, Leaving,
    Placement, RegisterError, SiteLink, SiteReport, SlotTable, Wanted,
};
use outboard_driver::calling::{CallerThread, Dial, ambient, draw_caller};
use outboard_link::ofi::{self, OfiLink};
use outboard_link::shm::{self, ShmLink};
use outboard_link::tcp::{self, TcpLink};
use outboard_link::{
    Address, Clock, ConnectError, Exports, Identity, Link, LinkError, Peer, RemoteMemory, WaitOn, sleep_on,
};
use outboard_settings::LinkSettings;
use outboard_steering::Site;
use outboard_wire::calling::CallerId;
use outboard_wire::{Incarnation, Time};

use super::CallerOptions;
use crate::any_link::AnyLink;

/// How long to look for answers before sleeping, where looking costs no system call.
const SPIN: Duration = Duration::from_micros(20);

/// Names of calls begin with the number of the server where they began.
const NUMBER_SHIFT: u32 = 56;

/// A caller over one kind of link to its memory server. Chosen once, when connecting.
pub(super) enum AnyDispatcher {
    Shm(Box<CallerThread<ShmLink, AnyLink>>),
    /// Shared with the thread that shows that we live while the application computes.
    Tcp(Arc<Mutex<CallerThread<TcpLink, AnyLink>>>),
    /// As over TCP.
    Ofi(Arc<Mutex<CallerThread<OfiLink, AnyLink>>>),
}

macro_rules! on {
    ($any:expr, $site:ident => $body:expr) => {
        match $any {
            AnyDispatcher::Shm($site) => $body,
            AnyDispatcher::Tcp(shared) => {
                let $site = &mut *lock(shared);
                $body
            }
            AnyDispatcher::Ofi(shared) => {
                let $site = &mut *lock(shared);
                $body
            }
        }
    };
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AnyDispatcher {
    pub(super) fn connect(
        address: &Address,
        identity: Identity,
        settings: &LinkSettings,
        (options, number): (&CallerOptions, u32),
    ) -> Result<Self, ConnectError> {
        let first_id = u64::from(number) << NUMBER_SHIFT;
        let (exports, caller) = (Exports::new(), draw_caller());
        let config = DispatcherConfig {
            under_way_max: options.under_way_max,
            placement: options.placement,
            silence_max: settings.deadline,
            ambient: ambient(|message| {
                tracing::debug!("a function says: {}", String::from_utf8_lossy(message));
            }),
        };
        let agent = |server| Agent::dial(options, identity.clone(), settings, (caller, server));
        match address {
            Address::Tcp(socket) => {
                let link = tcp::connect(*socket, identity.clone(), exports, settings.tcp())?;
                let agent = agent(link.peer().incarnation())?;
                let shared = Arc::new(Mutex::new(agent.join(link, (caller, first_id), config)));
                keep_alive(&shared, settings.heartbeat / 2);
                Ok(Self::Tcp(shared))
            }
            Address::Ofi(socket) => {
                let link = ofi::connect(*socket, identity.clone(), exports, settings.ofi())?;
                let agent = agent(link.peer().incarnation())?;
                let shared = Arc::new(Mutex::new(agent.join(link, (caller, first_id), config)));
                keep_alive(&shared, settings.heartbeat / 2);
                Ok(Self::Ofi(shared))
            }
            address => {
                let link = shm::connect(address, identity.clone(), exports, settings.shm())?;
                let agent = agent(link.peer().incarnation())?;
                Ok(Self::Shm(Box::new(agent.join(link, (caller, first_id), config))))
            }
        }
    }

    pub(super) fn register(
        &mut self,
        image: &FunctionImage,
        wanted: Wanted,
        patience: Duration,
    ) -> Result<u32, RegisterError> {
        on!(self, site => site.register(image, wanted, patience))
    }

    #[inline]
    pub(super) fn begin(&mut self, begin: &Begin<'_>) -> Result<u64, CallBeginError> {
        on!(self, site => site.begin(begin))
    }

    pub(super) fn flush(&mut self) {
        on!(self, site => site.dispatcher.flush());
    }

    #[inline]
    pub(super) fn turn(&mut self, tell: impl FnMut(u64, CallOutcome<'_>)) -> bool {
        on!(self, site => site.turn(tell))
    }

    pub(super) fn turn_and_keep(&mut self) -> bool {
        on!(self, site => site.turn_and_keep())
    }

    pub(super) fn next_kept(&mut self) -> Option<CallEnded> {
        on!(self, site => site.dispatcher.next_kept())
    }

    #[inline]
    pub(super) fn next_leaving(&mut self) -> Option<Leaving> {
        on!(self, site => site.dispatcher.next_leaving())
    }

    // Whoever cannot begin it gets it back, and it is large only then.
    #[allow(clippy::result_large_err)]
    pub(super) fn take_over(
        &mut self,
        leaving: Leaving,
        until: Option<Time>,
    ) -> Result<(), (Leaving, CallBeginError)> {
        on!(self, site => site.take_over(leaving, until))
    }

    /// Sleeps until there may be something to do for one of them or at what is named, for `span` at most.
    pub(super) fn sleep<'a>(all: &'a mut [Self], on: Vec<WaitOn<'a>>, span: Duration) {
        let Some((first, others)) = all.split_first_mut() else {
            // A loss is told by the calls that it ends.
            let _ = sleep_on(on, span);
            return;
        };
        on!(first, site => {
            if let Some(span) = site.prepare_to_sleep(span) {
                let on = on.into_iter().chain(site.wait_on()).collect();
                Self::sleep(others, on, span);
            }
        });
    }

    pub(super) fn under_way(&self) -> usize {
        on!(self, site => site.dispatcher.under_way())
    }

    pub(super) fn lost(&self) -> Option<LinkError> {
        on!(self, site => site.dispatcher.lost().cloned())
    }

    pub(super) fn peer(&self) -> Peer {
        on!(self, site => site.dispatcher.link().peer().clone())
    }

    /// Whom calls at a site wait for.
    pub(super) fn peer_at(&self, at: Site) -> Peer {
        on!(self, site => site.dispatcher.peer_at(at).clone())
    }

    pub(super) fn sites(&self) -> [SiteReport; 3] {
        on!(self, site => site.dispatcher.sites())
    }

    pub(super) fn server_given_up(&self) -> u64 {
        on!(self, site => site.dispatcher.server_given_up())
    }

    pub(super) fn open_here(&mut self) {
        on!(self, site => site.dispatcher.open_here());
    }

    pub(super) fn table(&self) -> SlotTable {
        on!(self, site => *site.dispatcher.table())
    }

    pub(super) fn placement(&self) -> Placement {
        on!(self, site => site.dispatcher.placement())
    }

    pub(super) fn clock(&self) -> Clock {
        on!(self, site => site.clock())
    }

    pub(super) fn spin(&self) -> Duration {
        match self {
            Self::Shm(_) => outboard_limits::spin(SPIN),
            Self::Tcp(_) | Self::Ofi(_) => Duration::ZERO,
        }
    }

    pub(super) fn close(&mut self) {
        on!(self, site => site.dispatcher.close());
    }
}

/// A caller's agent, if it is to have one.
struct Agent {
    /// The link to it, if it is there.
    end: Option<SiteLink<AnyLink>>,
    /// How it is found again.
    dial: Option<Dial<AnyLink>>,
}

impl Agent {
    fn dial(
        options: &CallerOptions,
        identity: Identity,
        settings: &LinkSettings,
        whose: (CallerId, Incarnation),
    ) -> Result<Self, ConnectError> {
        let Some(address) = options.agent.clone() else { return Ok(Self { end: None, dial: None }) };
        let end = match dial(&address, identity.clone(), settings, whose) {
            Err(error) if options.placement != Placement::Fixed(Site::Agent) => {
                tracing::warn!("calling without the agent: {error}");
                None
            }
            dialled => Some(dialled?),
        };
        let settings = settings.clone();
        let again = move || dial(&address, identity.clone(), &settings, whose).ok();
        Ok(Self { end, dial: Some(Arc::new(again)) })
    }

    /// A caller with this agent.
    fn join<L: Link + RemoteMemory>(
        self,
        link: L,
        (caller, first_id): (CallerId, u64),
        config: DispatcherConfig,
    ) -> CallerThread<L, AnyLink> {
        let dispatcher = Dispatcher::new(link, self.end, caller, config).with_first_id(first_id);
        let mut thread = CallerThread::new(dispatcher);
        if let Some(dial) = self.dial {
            thread.redial(dial);
        }
        thread
    }
}

/// A link to an agent, as a site for functions on the regions of that server.
fn dial(
    address: &Address,
    identity: Identity,
    settings: &LinkSettings,
    (caller, server): (CallerId, Incarnation),
) -> Result<SiteLink<AnyLink>, ConnectError> {
    Ok(SiteLink::new(AnyLink::connect(address, identity, settings)?, caller, server))
}

/// Lets the link show that it lives while the application computes and makes no calls. Ends with the caller.
fn keep_alive<L>(shared: &Arc<Mutex<CallerThread<L, AnyLink>>>, pause: Duration)
where
    L: Link + RemoteMemory + Send + 'static,
{
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
