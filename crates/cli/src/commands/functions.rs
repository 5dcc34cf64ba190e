//! What `kv` and `btree` have in common: something at a memory server that functions use, and that is made, served, used
//! and measured.

pub(super) mod bench;

use anyhow::{Context, Result, bail};
use outboard::{CallPlacement, CallSite, Caller, CallerOptions, Client, Memory};
use outboard_agent::Daemon;
use outboard_driver::raise_descriptor_limit;
use outboard_link::{Address, Identity};
use outboard_settings::{LinkSettings, Settings, default_socket};
use outboard_wire::Role;
use serde::Serialize;

use crate::config_flags::{About, ConfigFlags, Tool};
use crate::terminal;

/// At which server.
#[derive(clap::Args)]
pub(super) struct Place {
    /// The memory server; without it, the one of the settings (job.memory) or at this user's usual socket
    #[arg(long, value_name = "ADDRESS")]
    server: Option<Address>,
    #[command(flatten)]
    config: ConfigFlags<Tool>,
}

/// At which server, and how much to say of the calls.
#[derive(clap::Args)]
pub(super) struct At {
    #[command(flatten)]
    pub(super) place: Place,
    /// Say on standard error where calls run, and why
    #[arg(long)]
    pub(super) explain: bool,
}

/// The settings of a server that is started for one table or tree.
pub(super) struct AboutServe;

impl About for AboutServe {
    const SECTION: &'static str = "memory";
    const OTHERS: &'static [&'static str] = &["calling", "link", "log", "metrics"];
}

impl Place {
    /// The server; nothing, if the settings were only to be shown.
    pub(super) fn find(&self, command: &'static str) -> Result<Option<Server>> {
        let Some(configuration) = self.config.open(false)? else { return Ok(None) };
        Ok(Some(Server::find(command, self.server.as_ref(), &configuration.settings)?))
    }

    /// Has something made at the server, and says what.
    pub(super) fn create(
        &self,
        command: &'static str,
        make: impl FnOnce(&mut Memory) -> Result<String>,
    ) -> Result<()> {
        let Some(server) = self.find(command)? else { return Ok(()) };
        let mut memory = server.memory()?;
        let made = make(&mut memory)?;
        memory.close("it is made");
        terminal::print(&format!("made {made}"))
    }
}

impl At {
    /// Says where calls run, if that was asked.
    pub(super) fn explain(&self, caller: &Caller) {
        if self.explain {
            caller.explain().iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// Runs a memory server in the foreground, with something in it that `make` makes, which says what.
pub(super) fn serve(
    command: &'static str,
    config: &ConfigFlags<AboutServe>,
    make: impl FnOnce(&mut Memory) -> Result<String>,
) -> Result<()> {
    let Some(configuration) = config.open(false)? else { return Ok(()) };
    raise_descriptor_limit();
    let daemon = Daemon::memory(&configuration.settings)?;
    let address = daemon.listening().first().context("the server listens nowhere")?;
    let mut memory = Server::find(command, Some(address), &configuration.settings)?.memory()?;
    let made = make(&mut memory)?;
    memory.close("it is made");
    crate::serve::serve(&format!(", with {made}"), move || Ok(daemon))
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
                true => format!(
                    "no memory server runs here; start one with `outboard up` or `{} serve`",
                    self.command
                ),
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
