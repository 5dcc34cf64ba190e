//! How a caller is connected to a memory server and to an agent, by whichever kind of link their addresses ask for.

use outboard_calling::{CallPlacement, Dispatcher, DispatcherConfig, SiteLink};
use outboard_driver::calling::{CallerThread, LinkedCaller, ambient, draw_caller};
use outboard_driver::{AgentFinder, Connection, Over};
use outboard_link::{AnyLink, ConnectError, Link, RemoteMemory};
use outboard_steering::Site;
use outboard_wire::Incarnation;
use outboard_wire::calling::CallerId;

use super::CallerOptions;
use crate::error::OpenError;
use crate::outboard::Outboard;

/// Names of calls begin with the number of the server where they began.
const NUMBER_SHIFT: u32 = 56;

/// Connects a caller to the memory server of `outboard`, as the server of that number.
pub(super) fn open(
    outboard: &Outboard,
    options: &CallerOptions,
    number: u32,
) -> Result<Connection<Calling>, OpenError> {
    let Outboard { identity, link: settings, .. } = outboard;
    let config = DispatcherConfig {
        under_way_max: options.under_way_max,
        placement: options.placement,
        silence_max: settings.deadline,
        ambient: ambient(|message| {
            tracing::debug!("a function says: {}", String::from_utf8_lossy(message));
        }),
    };
    outboard.connect(|address| {
        let first_id = u64::from(number) << NUMBER_SHIFT;
        let calling = Calling { outboard: outboard.clone(), first_id, config };
        Connection::open(address, identity.clone(), &settings.configs(), calling)
    })
}

/// All that a caller is made with besides its link to the memory server.
pub(super) struct Calling {
    outboard: Outboard,
    first_id: u64,
    config: DispatcherConfig,
}

impl Over for Calling {
    type Client<L: Link + RemoteMemory + Send + 'static> = CallerThread<L, AnyLink>;
    type Any = dyn LinkedCaller;

    /// An agent is looked for when it is known for which server, in its present life, functions are to run there.
    fn over<L: Link + RemoteMemory + Send + 'static>(
        self,
        link: L,
    ) -> Result<CallerThread<L, AnyLink>, ConnectError> {
        let caller = draw_caller();
        let opens = (caller, link.peer().incarnation());
        let (finder, agent) = self.agent(opens)?;
        let dispatcher = Dispatcher::new(link, agent, caller, self.config).with_first_id(self.first_id);
        let mut thread = CallerThread::new(dispatcher);
        if let Some(finder) = finder {
            thread.redial(finder, opens);
        }
        Ok(thread)
    }

    fn any<L: Link + RemoteMemory + Send + 'static>(client: &CallerThread<L, AnyLink>) -> &Self::Any {
        client
    }

    fn any_mut<L: Link + RemoteMemory + Send + 'static>(
        client: &mut CallerThread<L, AnyLink>,
    ) -> &mut Self::Any {
        client
    }
}

/// How an agent is found again, and the link to it if it is there.
type AgentEnd = (Option<AgentFinder<AnyLink>>, Option<SiteLink<AnyLink>>);

impl Calling {
    /// The agent, if the caller is to have one.
    fn agent(&self, (caller, server): (CallerId, Incarnation)) -> Result<AgentEnd, ConnectError> {
        let Outboard { identity, link, agent: Some(address), .. } = &self.outboard else {
            return Ok((None, None));
        };
        let (finder, link) = AgentFinder::connect(address, identity.clone(), link.configs());
        let link = match link {
            Err(error) if self.config.placement != CallPlacement::Fixed(Site::Agent) => {
                tracing::warn!("calling without the agent: {error}");
                None
            }
            link => Some(SiteLink::new(link?, caller, server)),
        };
        Ok((Some(finder), link))
    }
}
