//! Where everything begins that needs no job: which memory server and which agent a process works with.

use std::time::Duration;

use outboard_link::{Address, ConnectError, Identity};
use outboard_settings::{
    AddressChoice, Configuration, Inputs, LinkSettings, Settings, SettingsError, default_socket,
};
use outboard_wire::Role;

use crate::caller::{Caller, CallerOptions};
use crate::client::Client;
use crate::error::OpenError;
use crate::far::{FarError, FarMemory, FarOptions};
use crate::job::doors;
use crate::memory::Memory;
use crate::writer::{Writer, WriterOptions};

/// A memory server and an agent that a process works with, and how it speaks to them. The services that need no ranks begin
/// here; [`Job`](crate::Job) has the same ones, and messages.
///
/// It holds no connection: each service that it opens makes its own, and reports then what cannot be reached.
///
/// ```
/// # let _server = outboard_nearby::start();
/// use outboard::Outboard;
///
/// let outboard = Outboard::find()?; // at this user's `outboard up`, unless the settings name another
/// let mut memory = outboard.memory()?; // regions, by calls
/// let far = outboard.far()?; // arrays behind plain pointers
/// let mut caller = outboard.caller()?; // functions beside the data
/// let mut writer = outboard.writer()?; // remote writes that choose their path
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Outboard {
    pub(crate) address: Option<Address>,
    pub(crate) agent: Option<Address>,
    pub(crate) identity: Identity,
    pub(crate) link: LinkSettings,
    pub(crate) deadline: Duration,
    pub(crate) far: FarOptions,
}

impl Outboard {
    /// As the configuration file and the environment say: the memory server that they name (`job.memory`) and their agent
    /// (`job.agent`), or else those that this user has started by `outboard up`. Whether the server runs is seen when a
    /// service is opened.
    pub fn find() -> Result<Self, OpenError> {
        Ok(Self::from_settings(&settings().map_err(|error| OpenError::Settings(error.into()))?))
    }

    /// The memory server at `address`, without an agent, with the defaults of all settings.
    /// [`find`](Self::find) and [`with_address`](Self::with_address) is the same with those of the configuration file.
    pub fn at(address: Address) -> Self {
        Self { address: Some(address), agent: None, ..Self::from_settings(&Settings::default()) }
    }

    /// As these settings say.
    #[doc(hidden)]
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            address: settings.job.memory.address("memory"),
            agent: agent_of(settings),
            identity: Identity::new(Role::Application, "application"),
            link: settings.link.clone(),
            deadline: settings.link.deadline,
            far: FarOptions::from_settings(settings),
        }
    }

    /// Takes the memory server at `address`.
    pub fn with_address(self, address: Address) -> Self {
        Self { address: Some(address), ..self }
    }

    /// Takes the agent at `address`, which has to know the memory server.
    pub fn with_agent(self, address: Address) -> Self {
        Self { agent: Some(address), ..self }
    }

    /// Goes without an agent.
    pub fn without_agent(self) -> Self {
        Self { agent: None, ..self }
    }

    /// Lets every call of services that are opened from here end within `deadline`; default 5 s (`link.deadline`). A call
    /// that has a deadline of its own keeps that.
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets the name by which daemons and their operators know this process; default “application”.
    pub fn with_name(mut self, name: &str) -> Self {
        self.identity = Identity::new(self.identity.role, name);
        self
    }

    /// Sets the identity that daemons see.
    #[doc(hidden)]
    pub fn with_identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Sets the settings of links, whose deadline is that of calls as well.
    #[doc(hidden)]
    pub fn with_link(self, link: LinkSettings) -> Self {
        Self { deadline: link.deadline, link, ..self }
    }

    /// Where the memory server is, unless the settings say to go without.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Where the agent is, if there is to be one.
    pub fn agent(&self) -> Option<&Address> {
        self.agent.as_ref()
    }

    /// Connects to the memory server, to reserve, read and write its regions by calls.
    pub fn memory(&self) -> Result<Memory, OpenError> {
        self.client().map(Memory::new)
    }

    /// Connects to the memory server, and to the agent if there is one, for memory behind plain pointers:
    /// as the settings say.
    pub fn far(&self) -> Result<FarMemory, FarError> {
        self.far_with(self.far_options())
    }

    /// As [`far`](Self::far), with these options.
    pub fn far_with(&self, options: FarOptions) -> Result<FarMemory, FarError> {
        FarMemory::start(self, options)
    }

    /// The options of far memory as the settings say, to be changed and given to [`far_with`](Self::far_with).
    pub fn far_options(&self) -> FarOptions {
        self.far.clone()
    }

    /// Connects to the memory server, and to the agent if there is one, to call functions beside the data.
    pub fn caller(&self) -> Result<Caller, OpenError> {
        self.caller_with(CallerOptions::default())
    }

    /// As [`caller`](Self::caller), with these options.
    pub fn caller_with(&self, options: CallerOptions) -> Result<Caller, OpenError> {
        Caller::start(self, options)
    }

    /// Connects to the memory server for remote writes.
    pub fn writer(&self) -> Result<Writer, OpenError> {
        self.writer_with(WriterOptions::default())
    }

    /// As [`writer`](Self::writer), with these options.
    pub fn writer_with(&self, options: WriterOptions) -> Result<Writer, OpenError> {
        Writer::start(self, options)
    }

    /// Which memory server and which agent were chosen, a line each.
    pub fn explain(&self) -> Vec<String> {
        let line = |daemon, address: &Option<Address>| match address {
            Some(address) => format!("{daemon}: at {address}"),
            None => format!("{daemon}: none"),
        };
        vec![line("memory server", &self.address), line("agent", &self.agent)]
    }

    /// Connects to the memory server for questions.
    #[doc(hidden)]
    pub fn client(&self) -> Result<Client, OpenError> {
        let address = self.server()?;
        let client = Client::connect(address, self.identity.clone(), &self.link);
        let client = client.map_err(|error| OpenError::new(address, error))?;
        Ok(client.with_deadline(self.deadline))
    }

    pub(crate) fn server(&self) -> Result<&Address, OpenError> {
        self.address.as_ref().ok_or(OpenError::NoServer)
    }

    /// Does something with the memory server's address that connects to it.
    pub(crate) fn connect<T>(
        &self,
        connect: impl FnOnce(&Address) -> Result<T, ConnectError>,
    ) -> Result<T, OpenError> {
        let address = self.server()?;
        connect(address).map_err(|error| OpenError::new(address, error))
    }
}

/// The settings of this process, as configuration file and environment say. What is probably a mistake in them is logged.
pub(crate) fn settings() -> Result<Settings, SettingsError> {
    let configuration = Configuration::load(&Inputs::from_process())?;
    for notice in configuration.notices() {
        tracing::warn!("{notice}");
    }
    Ok(configuration.settings)
}

/// Where the agent is: that of the job, or of this user, if there is one.
fn agent_of(settings: &Settings) -> Option<Address> {
    let own = settings.job.own_agent().filter(doors::is_open);
    match &settings.job.agent {
        _ if own.is_some() => own,
        // An agent whose socket is not there is not looked for again and again.
        AddressChoice::Auto if !is_there(&default_socket("agent")) => None,
        whereabouts => whereabouts.address("agent"),
    }
}

/// Whether a process listens at a local address, as far as the file system knows.
fn is_there(address: &Address) -> bool {
    match address {
        Address::Path(path) => std::path::Path::new(path).exists(),
        Address::Abstract(_) | Address::Tcp(_) | Address::Ofi(_) => true,
    }
}
