//! The memory server and the agent of a run: those that were named, or others that live as long as it.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use outboard::{Client, Memory, Path};
use outboard_agent::{STATUS_GRANT, StatusView};
use outboard_launch::Piece;
use outboard_link::{Address, Identity};
use outboard_settings::{Configuration, LinkSettings, Settings, default_socket};
use outboard_wire::Role;

use super::figures::AgentCount;
use super::flags::{LinkName, Plan};
use crate::children::{self, Child, GRACE};
use crate::ranks::draw_number;

/// Within which time an agent puts in writing what it has done.
const PAUSE: Duration = Duration::from_millis(30);

/// The memory server and the agent of a run.
pub(super) struct Daemons {
    pub(super) servers: Vec<Address>,
    pub(super) agent: Option<Address>,
    /// How to reach them.
    pub(super) link: LinkSettings,
    // Dropped in this order, so that the agent does not miss its memory server.
    agent_child: Option<Child>,
    memory_child: Option<Child>,
}

impl Daemons {
    /// Starts those that were not named. A memory server of ours gives out files below `data_dir`.
    pub(super) fn start(
        plan: &Plan,
        configuration: &Configuration,
        data_dir: Option<PathBuf>,
    ) -> Result<Self> {
        let number = draw_number().context("no random number for the sockets' names")? as u32;
        let place = |daemon: &str| match plan.link {
            LinkName::Shm => default_socket(&format!("graph-{}-{number:08x}-{daemon}", std::process::id())),
            LinkName::Tcp => Address::Tcp(([127, 0, 0, 1], 0).into()),
            LinkName::Ofi => Address::Ofi(([127, 0, 0, 1], 0).into()),
        };
        let mut settings = children::quiet(configuration);
        settings.metrics.listen = None;
        (settings.memory.name, settings.agent.name) = ("graph-memory".to_owned(), "graph-agent".to_owned());
        settings.memory.listen = vec![place("memory")];
        settings.memory.data_dir = data_dir;
        settings.agent.listen = vec![place("agent")];
        settings.agent.dial_wire = plan.wire;
        let link = settings.link.clone();
        for address in &plan.servers {
            connect(address, Role::MemoryServer, "--server", &link)?.close("only looked who it is");
        }
        let mut servers = plan.servers.clone();
        let mut memory_child = None;
        if servers.is_empty() {
            let child = Child::memory(&settings, tell)?;
            servers.push(address_of(None, Some(&child))?);
            memory_child = Some(child);
        }
        let agent_child = start_agent(plan, &mut settings, &servers)?;
        let agent = match (&plan.agent, &agent_child) {
            (None, None) => None,
            (named, child) => Some(address_of(named.as_ref(), child.as_ref())?),
        };
        Ok(Self { servers, agent, link, agent_child, memory_child })
    }

    /// How many bytes the agent has read from memory servers so far, for whomever. One that is gone does not say.
    pub(super) fn read_by_agent(&self) -> Option<AgentCount> {
        let status = self.status()?.ok()?;
        let bytes = status.get("read_from_servers_bytes_total")?;
        Some(AgentCount { life: (status.pid, status.started), bytes })
    }

    /// The agent's words about the regions that it serves.
    pub(super) fn agent_lines(&self) -> Vec<String> {
        match self.status() {
            None => Vec::new(),
            Some(Ok(status)) => status.lines,
            Some(Err(error)) => vec![format!("{error:#}")],
        }
    }

    /// The agent's status page, if there is an agent.
    fn status(&self) -> Option<Result<StatusView>> {
        let agent = self.agent.as_ref()?;
        // tidy: allow(sleep) it puts in writing what it did some time after it has done so, and gives no sign
        std::thread::sleep(PAUSE);
        Some(status(agent, &self.link))
    }

    /// Stops those that were started, the agent first.
    pub(super) fn stop(self) {
        for child in [self.agent_child, self.memory_child].into_iter().flatten() {
            child.process.stop(GRACE);
        }
    }
}

fn start_agent(plan: &Plan, settings: &mut Settings, servers: &[Address]) -> Result<Option<Child>> {
    match &plan.agent {
        _ if plan.path == Path::Direct => Ok(None),
        Some(address) => {
            connect(address, Role::Agent, "--agent", &settings.link)?.close("only looked who it is");
            Ok(None)
        }
        None => {
            settings.agent.memory_servers = servers.to_vec();
            Ok(Some(Child::agent(settings, None, tell)?))
        }
    }
}

fn address_of(named: Option<&Address>, child: Option<&Child>) -> Result<Address> {
    let address = named.or_else(|| child.and_then(|child| child.listening.first()));
    address.cloned().context("a daemon that was started did not say where it listens")
}

/// Connects to whom the user has named, and makes sure that it is what they think.
pub(super) fn connect(address: &Address, role: Role, flag: &str, link: &LinkSettings) -> Result<Client> {
    let identity = Identity::new(Role::Application, "graph run");
    let client = Client::connect(address, identity, link).with_context(|| format!("no {role}"))?;
    match client.peer().intro().role {
        is if is == role => Ok(client),
        _ => bail!("{} is no {role}; name one with {flag} ADDRESS", client.peer()),
    }
}

/// Connects to a memory server that the user has named.
pub(super) fn connect_memory(address: &Address, link: &LinkSettings) -> Result<Memory> {
    Ok(Memory::new(connect(address, Role::MemoryServer, "--server", link)?))
}

fn status(agent: &Address, link: &LinkSettings) -> Result<StatusView> {
    let mut client = Client::connect(agent, Identity::new(Role::Tool, "graph run"), link)?;
    let view = StatusView::read(&client.read_region(&STATUS_GRANT)?);
    client.close("seen enough");
    view.with_context(|| format!("the agent at {agent} has no status that can be read"))
}

/// Passes on what daemons have to say, which is only what went wrong.
fn tell(piece: Piece<'_>) {
    let text = format!("[{}] {}\n", piece.from, String::from_utf8_lossy(piece.bytes));
    // A user who does not read the standard error misses it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}
