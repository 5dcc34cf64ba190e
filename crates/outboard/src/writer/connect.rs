//! How a writer is connected to a memory server and to an agent, by whichever kind of link their addresses ask for.

use outboard_driver::writing::{LinkedWriter, WriterLinks};
use outboard_driver::{AgentFinder, Connection, Over, Tended};
use outboard_link::{AnyLink, ConnectError, Link, RemoteMemory};
use outboard_writing::{BeginError, Write, WriteId, WriterConfig};

use super::WriterOptions;
use crate::error::OpenError;
use crate::outboard::Outboard;

/// All that a writer is made with besides its link to the memory server.
pub(super) struct Writing {
    config: WriterConfig,
    /// How an agent that drains is found again, and the link to it if it is there.
    agent: Option<(AgentFinder<AnyLink>, Option<AnyLink>)>,
}

impl Over for Writing {
    type Client<L: Link + RemoteMemory + Send + 'static> = WriterLinks<L, AnyLink>;
    type Any = dyn LinkedWriter;

    fn over<L: Link + RemoteMemory + Send + 'static>(
        self,
        link: L,
    ) -> Result<WriterLinks<L, AnyLink>, ConnectError> {
        let Some((finder, agent)) = self.agent else { return Ok(WriterLinks::new(link, None, self.config)) };
        let mut writer = WriterLinks::new(link, agent, self.config);
        writer.redial(finder);
        Ok(writer)
    }

    fn any<L: Link + RemoteMemory + Send + 'static>(client: &WriterLinks<L, AnyLink>) -> &Self::Any {
        client
    }

    fn any_mut<L: Link + RemoteMemory + Send + 'static>(
        client: &mut WriterLinks<L, AnyLink>,
    ) -> &mut Self::Any {
        client
    }
}

/// Connects a writer to the memory server of `outboard`, and to the agent where the options want that.
pub(super) fn open(outboard: &Outboard, options: &WriterOptions) -> Result<Connection<Writing>, OpenError> {
    let (identity, configs) = (&outboard.identity, outboard.link.configs());
    let agent = outboard.agent.as_ref().filter(|_| options.by_agent).map(|agent| {
        let (finder, link) = AgentFinder::connect(agent, identity.clone(), configs.clone());
        let link = link.inspect_err(|error| tracing::warn!("unloading without the agent: {error}"));
        (finder, link.ok())
    });
    let writing = Writing { config: options.config(), agent };
    outboard.connect(|address| Connection::open(address, identity.clone(), &configs, writing))
}

/// Begins a write, by code that is compiled for each kind of link: through mapped memory it takes some tens of nanoseconds.
#[inline]
pub(super) fn begin(to: &mut Connection<Writing>, write: &Write<'_>) -> Result<WriteId, BeginError> {
    match to {
        Connection::Shm(writer) => writer.begin(write),
        Connection::Tcp(shared) => begin_shared(shared, *write),
        Connection::Ofi(shared) => begin_shared(shared, *write),
    }
}

/// Apart from the rest, so that a write that ends at once is no more than a few checks and a copy.
#[inline(never)]
fn begin_shared<L: Link + RemoteMemory + Send + 'static>(
    shared: &Tended<WriterLinks<L, AnyLink>>,
    write: Write<'_>,
) -> Result<WriteId, BeginError> {
    shared.lock().begin(&write)
}
