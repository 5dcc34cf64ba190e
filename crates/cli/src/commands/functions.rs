//! What commands have in common that call functions at a memory server.

use anyhow::{Context, Result, bail};
use outboard::{CallPlacement, CallSite, Caller, CallerOptions, Client, Memory};
use outboard_link::{Address, Identity};
use outboard_settings::{LinkSettings, Settings, default_socket};
use outboard_wire::Role;
use serde::Serialize;

/// A memory server that was found.
pub(super) struct Server {
    pub(super) address: Address,
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
                true => format!("nothing is served here; start with `{} serve`", self.command),
                false => "no memory server".to_owned(),
            }
        })?;
        if client.peer().intro().role != Role::MemoryServer {
            bail!("{} is no memory server; name one with --server ADDRESS", client.peer());
        }
        Ok(Memory::new(client))
    }

    /// Connects once more, to call functions.
    pub(super) fn caller(&self, options: CallerOptions) -> Result<Caller> {
        Ok(Caller::connect(&self.address, Identity::new(Role::Tool, self.command), &self.link, options)?)
    }
}

/// Where functions run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Where {
    /// Where the server's table of slots says
    Steered,
    /// At the memory server
    Server,
    /// At the agent
    Agent,
    /// In this process
    Application,
}

impl Where {
    pub(super) fn placement(self) -> CallPlacement {
        match self {
            Self::Steered => CallPlacement::Steered,
            Self::Server => CallPlacement::Fixed(CallSite::Server),
            Self::Agent => CallPlacement::Fixed(CallSite::Agent),
            Self::Application => CallPlacement::Fixed(CallSite::Application),
        }
    }
}
