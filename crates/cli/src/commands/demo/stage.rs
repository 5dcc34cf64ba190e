//! What the steps of a demo share: the daemons, and the connections to them.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use outboard::{Client, Memory};
use outboard_launch::{Piece, Sink};
use outboard_link::{Address, Identity};
use outboard_settings::{ByteSize, LogLevel, Settings, default_socket};
use outboard_wire::Role;

use crate::children::Child;
use crate::ranks::draw_number;

/// What the memory server gives out at most. It takes no more than what is written to.
const CAPACITY: u64 = 256 << 20;

/// What the steps share.
pub(super) struct Stage {
    /// What the daemons are started with. The user's own settings have no part in a demo.
    pub(super) settings: Settings,
    pub(super) memory: Option<Child>,
    pub(super) agent: Option<Child>,
    /// An open connection to the agent over each kind of link.
    pub(super) agent_links: Vec<Client>,
    identity: Identity,
    said: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// A stage without actors, at sockets that nobody else uses.
    pub(super) fn new() -> Result<Self> {
        let number = draw_number().context("no random number for the sockets' names")? as u32;
        let place = |daemon: &str| {
            let socket = default_socket(&format!("demo-{}-{number:08x}-{daemon}", std::process::id()));
            vec![socket, Address::Tcp(([127, 0, 0, 1], 0).into())]
        };
        let mut settings = Settings::default();
        settings.log.level = LogLevel::Warn;
        (settings.memory.name, settings.agent.name) = ("demo-memory".to_owned(), "demo-agent".to_owned());
        settings.memory.listen = place("memory");
        settings.memory.capacity = ByteSize(CAPACITY).into();
        settings.agent.listen = place("agent");
        let identity = Identity::new(Role::Application, "demo");
        Ok(Self {
            settings,
            memory: None,
            agent: None,
            agent_links: Vec::new(),
            identity,
            said: Arc::default(),
        })
    }

    /// Connects to a daemon.
    pub(super) fn connect(&self, address: &Address) -> Result<Client> {
        Ok(Client::connect(address, self.identity.clone(), &self.settings.link)?)
    }

    /// Connects to the memory server.
    pub(super) fn connect_memory(&self, by: By) -> Result<Memory> {
        Ok(Memory::new(self.connect(by.address(self.memory()?)?)?))
    }

    pub(super) fn memory(&self) -> Result<&Child> {
        self.memory.as_ref().context("the memory server does not run")
    }

    pub(super) fn agent(&self) -> Result<&Child> {
        self.agent.as_ref().context("the agent does not run")
    }

    /// Keeps what a process prints, for when something goes wrong.
    pub(super) fn sink(&self) -> impl Sink + Send + use<> {
        let said = Arc::clone(&self.said);
        move |piece: Piece<'_>| {
            let line = format!("[{}] {}", piece.from, String::from_utf8_lossy(piece.bytes));
            said.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    }

    /// All that the processes have printed.
    pub(super) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// By which kind of link.
#[derive(Clone, Copy)]
pub(super) enum By {
    /// Shared memory.
    Shm,
    /// TCP on the loopback interface.
    Tcp,
}

impl By {
    /// Where a daemon is reached by it.
    pub(super) fn address(self, daemon: &Child) -> Result<&Address> {
        match self {
            Self::Shm => daemon.local(),
            Self::Tcp => daemon.remote(),
        }
    }

    /// In names of figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }
}
