//! The memory server of a process that names none.

use outboard_link::{Address, ConnectError, Identity};
use outboard_settings::{Configuration, Inputs, Settings, SettingsError, default_socket};
use outboard_wire::Role;
use thiserror::Error;

use crate::client::Client;

/// Why no memory server was found for a process that names none.
#[derive(Error)]
#[non_exhaustive]
pub enum FindError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The settings say to go without.
    #[error(
        "the settings say to go without a memory server (job.memory is none): set OUTBOARD_JOB_MEMORY to auto or to an \
         address"
    )]
    Without,
    /// The user who runs this process has started none.
    #[error(
        "no memory server of this user runs ({address}): start one with `outboard up`, or set OUTBOARD_JOB_MEMORY to the \
         address of another"
    )]
    NotRunning {
        /// Where one would be.
        address: Address,
    },
    /// It cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

outboard_wire::debug_with_causes!(FindError);

impl FindError {
    /// Why the memory server at `address` cannot be used.
    pub(crate) fn new(address: &Address, error: ConnectError) -> Self {
        match error {
            ConnectError::Unreachable { .. } if *address == default_socket("memory") => {
                Self::NotRunning { address: address.clone() }
            }
            error => Self::Connect(error),
        }
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

/// The memory server that this process uses: the one of its settings, or else the one of its user.
pub(crate) struct Found {
    pub(crate) address: Address,
    pub(crate) settings: Settings,
}

impl Found {
    /// Looks for it in the settings. Whether it runs is seen when it is connected to.
    pub(crate) fn look() -> Result<Self, FindError> {
        let settings = settings()?;
        let address = settings.job.memory.address("memory").ok_or(FindError::Without)?;
        Ok(Self { address, settings })
    }

    /// Whom this process says it is.
    pub(crate) fn identity(&self) -> Identity {
        Identity::new(Role::Application, "application")
    }

    /// Connects to it for questions.
    pub(crate) fn connect(&self) -> Result<Client, FindError> {
        let client = Client::connect(&self.address, self.identity(), &self.settings.link);
        client.map_err(|error| FindError::new(&self.address, error))
    }
}
