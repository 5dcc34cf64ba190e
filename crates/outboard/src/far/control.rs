//! The connection by which regions are asked for and given back.

use std::sync::{Mutex, MutexGuard, PoisonError};

use outboard_link::Address;
use outboard_wire::Incarnation;

use super::FarError;
use crate::client::AskError;
use crate::error::OpenError;
use crate::memory::Memory;
use crate::outboard::Outboard;

/// The connection by which regions are asked for and given back. The links of fault threads are renewed when a server
/// was away for a while, and so is this one.
pub(super) struct Control {
    address: Address,
    /// How it is connected to.
    outboard: Outboard,
    memory: Mutex<Memory>,
}

impl Control {
    pub(super) fn connect(address: &Address, outboard: &Outboard) -> Result<Self, OpenError> {
        let outboard = outboard.clone().with_address(address.clone());
        let memory = Mutex::new(outboard.memory()?);
        Ok(Self { address: address.clone(), outboard, memory })
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
        // Whether the link was lost in a silence is seen by speaking; a question that was lost with its link
        // may have been answered, so it must not be asked twice.
        if let Err(AskError::Lost(_) | AskError::Deadline { .. }) = memory.client().echo(b"there?") {
            *memory = self.outboard.memory()?;
        }
        Ok(memory)
    }
}
