//! Why a service cannot be opened.

use outboard_link::{Address, ConnectError};
use outboard_settings::default_socket;
use thiserror::Error;

/// Why a service cannot be opened.
#[derive(Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A setting is wrong.
    #[error(transparent)]
    Settings(Box<dyn std::error::Error + Send + Sync>),
    /// The settings say to go without a memory server.
    #[error(
        "the settings say to go without a memory server (job.memory is none): name one with OUTBOARD_JOB_MEMORY or \
         `outboard run --job-memory ADDRESS`"
    )]
    NoServer,
    /// The user who runs this process has started no memory server.
    #[error(
        "no memory server of this user runs ({address}): start one with `outboard up`, or set OUTBOARD_JOB_MEMORY to the \
         address of another"
    )]
    NotRunning {
        /// Where one would be.
        address: Address,
    },
    /// The memory server cannot be reached, or refuses this process.
    #[error(transparent)]
    Connect(Box<dyn std::error::Error + Send + Sync>),
    /// A caller has as many memory servers as it can have.
    #[error("a caller can have {max} memory servers; use another caller for more")]
    TooManyServers {
        /// How many.
        max: u32,
    },
}

outboard_wire::debug_with_causes!(OpenError);

impl OpenError {
    /// Why the memory server at `address` cannot be used.
    pub(crate) fn new(address: &Address, error: ConnectError) -> Self {
        match error {
            ConnectError::Unreachable { .. } if *address == default_socket("memory") => {
                Self::NotRunning { address: address.clone() }
            }
            error => Self::Connect(error.into()),
        }
    }
}
