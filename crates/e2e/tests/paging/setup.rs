//! How a test uses far memory: at which daemons, and with which options.

use std::ops::{Deref, DerefMut};

use outboard::{Address, BufferSize, FarError, FarMemory, FarOptions, Memory, OpenError, Outboard};
use outboard_link::Identity;
use outboard_settings::LinkSettings;
use outboard_wire::Role;

use outboard_e2e::PATIENCE;

/// How a test uses far memory. Its options are changed in place.
#[derive(Clone)]
pub(super) struct FarSetup {
    server: Address,
    agent: Option<Address>,
    /// One for all that it opens: a server lets a process open what it writes itself.
    identity: Identity,
    pub(super) link: LinkSettings,
    options: FarOptions,
}

impl FarSetup {
    pub(super) fn new(server: &Address, chunk: usize, buffer: usize) -> Self {
        let options = FarOptions::default().with_buffer(BufferSize::Bytes(buffer)).with_chunk(chunk);
        let link = LinkSettings { handshake_timeout: PATIENCE, ..LinkSettings::default() };
        let identity = Identity::new(Role::Application, "application");
        Self { server: server.clone(), agent: None, identity, link, options }
    }

    pub(super) fn with_agent(self, agent: Option<Address>) -> Self {
        Self { agent, ..self }
    }

    /// The same, striped over these servers as well.
    pub(super) fn with_others(mut self, others: Vec<Address>) -> Self {
        self.servers = [vec![self.server.clone()], others].concat();
        self
    }

    /// The same with options that are changed.
    pub(super) fn with(mut self, change: impl FnOnce(&mut FarOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Where all of its memory is.
    pub(super) fn places(&self) -> Vec<Address> {
        if self.servers.is_empty() { vec![self.server.clone()] } else { self.servers.clone() }
    }

    fn outboard(&self) -> Outboard {
        let outboard = Outboard::at(self.server.clone())
            .with_link(self.link.clone())
            .with_identity(self.identity.clone());
        self.agent.iter().cloned().fold(outboard, Outboard::with_agent)
    }

    pub(super) fn open(&self) -> Result<FarMemory, FarError> {
        self.outboard().far_with(self.options.clone())
    }

    /// A connection to one of its memory servers, by calls.
    pub(super) fn memory(&self, server: Address) -> Result<Memory, OpenError> {
        Ok(self.outboard().with_address(server).memory()?.with_deadline(PATIENCE))
    }
}

impl Deref for FarSetup {
    type Target = FarOptions;

    fn deref(&self) -> &FarOptions {
        &self.options
    }
}

impl DerefMut for FarSetup {
    fn deref_mut(&mut self) -> &mut FarOptions {
        &mut self.options
    }
}
