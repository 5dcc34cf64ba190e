//! The connection by which regions are asked for and given back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use outboard_link::{Address, Identity};
use outboard_settings::LinkSettings;
use outboard_wire::Incarnation;

use super::{FarError, FarOptions};
use crate::client::{AskError, Client};
use crate::find::FindError;
use crate::memory::Memory;

/// The connection by which regions are asked for and given back. The links of fault threads are renewed when a server
/// was away for a while, and so is this one.
pub(super) struct Control {
    address: Address,
    identity: Identity,
    link: LinkSettings,
    memory: Mutex<Memory>,
}

impl Control {
    pub(super) fn connect(address: &Address, options: &FarOptions) -> Result<Self, FarError> {
        let (address, identity) = (address.clone(), options.identity.clone());
        let link = options.link.clone();
        let memory = dial(&address, &identity, &link)?;
        Ok(Self { address, identity, link, memory: Mutex::new(memory) })
    }

    /// Where the server is.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Which life of which server it is, as it was seen last.
    pub(super) fn incarnation(&self) -> Incarnation {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.client().peer().incarnation()
    }

    /// The server, which is there.
    pub(super) fn server(&self) -> Result<MutexGuard<'_, Memory>, FarError> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        // Whether the link was lost while nobody spoke is seen by speaking; a question that was lost with its link
        // may have been answered, so it must not be asked twice.
        if let Err(AskError::Lost(_)) = memory.client().echo(b"there?") {
            *memory = dial(&self.address, &self.identity, &self.link)?;
        }
        Ok(memory)
    }
}

fn dial(address: &Address, identity: &Identity, link: &LinkSettings) -> Result<Memory, FindError> {
    let client = Client::connect(address, identity.clone(), link);
    client.map(Memory::new).map_err(|error| FindError::new(address, error))
}
