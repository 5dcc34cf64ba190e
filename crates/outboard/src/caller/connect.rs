//! How a caller is connected to a memory server and to an agent, by whichever kind of link their addresses ask for.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use outboard_calling::{Dispatcher, DispatcherConfig, Placement, SiteLink};
use outboard_driver::calling::{CallerThread, Dial, ambient, draw_caller};
use outboard_link::{Address, ConnectError, Exports, Identity, Link, RemoteMemory, ofi, shm, tcp};
use outboard_settings::LinkSettings;
use outboard_steering::Site;
use outboard_wire::Incarnation;
use outboard_wire::calling::CallerId;

use super::CallerOptions;
use super::servers::AnyDispatcher;
use crate::any_link::AnyLink;

/// Names of calls begin with the number of the server where they began.
const NUMBER_SHIFT: u32 = 56;

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
