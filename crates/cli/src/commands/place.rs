//! Which memory server a command speaks to, and its links there.

use anyhow::{Context, Result, bail};
use outboard::{Caller, CallerOptions, Client, Memory, Outboard};
use outboard_link::{Address, Identity};
use outboard_settings::{LinkSettings, Settings, default_socket};
use outboard_wire::Role;

use crate::config_flags::{ConfigFlags, Tool};

/// At which server.
#[derive(clap::Args)]
pub(super) struct Place {
    /// The memory server; without it, the one of the settings (job.memory) or at this user's usual socket
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
    #[command(flatten)]
    config: ConfigFlags<Tool>,
}

impl Place {
    /// The server, as a command finds it; nothing, if the settings were only to be shown.
    pub(super) fn find(&self, command: &'static str, as_json: bool) -> Result<Option<Server>> {
        let Some(configuration) = self.config.open(as_json)? else { return Ok(None) };
        Ok(Some(Server::find(command, self.server.as_ref(), &configuration.settings)?))
    }
}

/// A memory server that was found.
pub(super) struct Server {
    address: Address,
    link: LinkSettings,
    /// Which command asks, as it is known to the server.
    command: &'static str,
}

impl Server {
    /// The one that was named, or else that of the settings.
    pub(super) fn find(command: &'static str, named: Option<&Address>, settings: &Settings) -> Result<Self> {
        let configured = || settings.job.memory.address("memory");
        let Some(address) = named.cloned().or_else(configured) else {
            bail!(
                "the settings say to go without a memory server (job.memory); name one with --server ADDRESS"
            );
        };
        Ok(Self { address, link: settings.link.clone(), command })
    }

    /// Connects to it.
    pub(super) fn memory(&self) -> Result<Memory> {
        let identity = Identity::new(Role::Tool, self.command);
        let client = Client::connect(&self.address, identity, &self.link).with_context(|| {
            match self.address == default_socket("memory") {
                true => "no memory server runs here; start one with `outboard up`",
                false => "no memory server",
            }
        })?;
        if client.peer().intro().role != Role::MemoryServer {
            bail!("{} is no memory server; name one with --server ADDRESS", client.peer());
        }
        Ok(Memory::new(client))
    }

    /// Connects once more, to call functions, at the agent as well if there is one.
    pub(super) fn caller(&self, options: CallerOptions, agent: Option<&Address>) -> Result<Caller> {
        let identity = Identity::new(Role::Tool, self.command);
        let outboard =
            Outboard::at(self.address.clone()).with_link(self.link.clone()).with_identity(identity);
        Ok(agent.cloned().into_iter().fold(outboard, Outboard::with_agent).caller_with(options)?)
    }
}
