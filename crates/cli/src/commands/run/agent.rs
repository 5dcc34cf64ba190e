//! The agent beside a job: one that runs already, or one of its own.

use std::time::Duration;

use anyhow::{Result, bail};
use outboard::Client;
use outboard_launch::{AgentCores, Console, CorePlan, CoreRequest, Stream, allowed_cpus};
use outboard_link::{Address, ConnectError, Identity};
use outboard_settings::{AddressChoice, Settings};
use outboard_wire::Role;
use serde_json::{Value, json};

use crate::children::{self, Child};
use crate::daemon_ready;

/// The agent beside a job.
pub(in crate::commands) enum Beside {
    /// The ranks look for themselves.
    Unsaid,
    /// There shall be none.
    NoAgent,
    /// One that another process has started.
    Running { address: Address, who: String },
    /// One of the job's own.
    Own { child: Child, address: Address, cores: CorePlan },
}

/// Sees to it that there is an agent, if one is wanted, and says which.
pub(in crate::commands) fn find_or_start(
    cores: Option<AgentCores>,
    ranks: u32,
    settings: &Settings,
    console: &mut Console,
) -> Result<Beside> {
    let agent = match cores {
        None => return Ok(Beside::Unsaid),
        Some(AgentCores::None) => return Ok(Beside::NoAgent),
        Some(agent) => agent,
    };
    if let Some(beside) = use_running(settings, console)? {
        return Ok(beside);
    }
    if let AddressChoice::At(address) = &settings.job.agent
        && !settings.agent.listen.contains(address)
    {
        bail!("no agent at {address} (job.agent), and it would not listen there: see --agent-listen");
    }
    let cores = CorePlan::plan(&allowed_cpus()?, CoreRequest { ranks, cpus_per_rank: 1, agent })?;
    let child = match Child::agent(settings, cores.agent.clone(), console.clone()) {
        Ok(child) => child,
        // Another job may have started one at the same moment.
        Err(error) => return use_running(settings, console)?.ok_or_else(|| children::seen(error)),
    };
    let address = child.local().or_else(|_| child.remote())?.clone();
    let (pid, at) = (child.process.pid(), daemon_ready::show(&child.listening));
    let limit = child.process.limit().map(|limit| format!(", {limit}")).unwrap_or_default();
    let shared = if cores.agent == cores.ranks { SHARED } else { "" };
    let started = format!("started an agent (process {pid}) at {at}: {cores}{limit}{shared}");
    console.say(Stream::Err, &format!("outboard: {started}"));
    if let Some(warning) = child.process.warning() {
        console.say(Stream::Err, &format!("outboard: warning: {warning}"));
    }
    Ok(Beside::Own { child, address, cores })
}

/// The note for the user of an agent on the ranks' processors.
const SHARED: &str =
    "; what it does for the ranks takes their time there (--agent other-cores, or none, does not)";

/// The agent that runs already, if there is one.
fn use_running(settings: &Settings, console: &mut Console) -> Result<Option<Beside>> {
    let Some((address, who)) = running(settings)? else { return Ok(None) };
    console.say(Stream::Err, &format!("outboard: using {who}, as it runs already"));
    Ok(Some(Beside::Running { address, who }))
}

/// An agent that runs where the settings say, if there is one.
fn running(settings: &Settings) -> Result<Option<(Address, String)>> {
    let places = match &settings.job.agent {
        AddressChoice::At(address) => std::slice::from_ref(address),
        AddressChoice::Auto | AddressChoice::None => settings.agent.listen.as_slice(),
    };
    for address in places.iter().filter(|address| !is_any_port(address)) {
        match Client::connect(address, Identity::new(Role::Tool, "outboard run"), &settings.link) {
            Ok(client) if client.peer().intro().role == Role::Agent => {
                let who = client.peer().to_string();
                client.close("only looked who is there");
                return Ok(Some((address.clone(), who)));
            }
            Ok(client) => bail!("{} is no agent; choose another address with --agent-listen", client.peer()),
            Err(ConnectError::Unreachable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Whether the system is to choose the port: no process can be there yet.
fn is_any_port(address: &Address) -> bool {
    matches!(address, Address::Tcp(socket) if socket.port() == 0)
}

impl Beside {
    /// The agent's address for the ranks, if they are to use it.
    pub(in crate::commands) fn whereabouts(&self) -> Option<AddressChoice> {
        match self {
            Self::Unsaid => None,
            Self::NoAgent => Some(AddressChoice::None),
            Self::Running { address, .. } | Self::Own { address, .. } => {
                Some(AddressChoice::At(address.clone()))
            }
        }
    }

    /// The processors that are left to the ranks; none for all.
    pub(in crate::commands) fn cpus_of_ranks(&self) -> Option<Vec<usize>> {
        match self {
            Self::Own { cores, .. } => cores.ranks.clone(),
            Self::Unsaid | Self::NoAgent | Self::Running { .. } => None,
        }
    }

    /// For programs.
    pub(in crate::commands) fn summary(&self) -> Value {
        match self {
            Self::Unsaid | Self::NoAgent => Value::Null,
            Self::Running { address, who } => {
                json!({"started": false, "address": address.to_string(), "who": who})
            }
            Self::Own { child, address, cores } => json!({
                "started": true, "address": address.to_string(), "pid": child.process.pid(),
                "cores": cores.to_string(), "limit": child.process.limit(),
            }),
        }
    }

    /// Ends the job's own agent.
    pub(in crate::commands) fn stop(self, grace: Duration) {
        if let Self::Own { child, .. } = self {
            child.process.stop(grace);
        }
    }
}
