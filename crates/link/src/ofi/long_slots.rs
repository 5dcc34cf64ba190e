//! Where long messages leave from.
//!
//! Like the room that they are written to, this is made when the first is sent and comes from the pool of the process.

use core::ffi::c_void;
use core::ptr::null_mut;

use super::endpoint::{Endpoint, Sizes};
use super::library::FabricFault;
use super::object::Registration;
use super::pool::Share;
use super::sys::FI_WRITE;
use crate::memory::{Buffer, WindowMut};

/// Slots for long messages, numbered from zero.
pub(super) struct LongSlots {
    registration: Option<Registration>,
    memory: Buffer,
    slot_bytes: usize,
    count: usize,
    /// Those that are not under way.
    free: Vec<usize>,
    _share: Share,
}

impl LongSlots {
    /// Makes them, if the pool has room.
    pub(super) fn make(endpoint: &Endpoint, pool_bytes: usize) -> Result<Option<Self>, FabricFault> {
        let Sizes { long_sends: count, slot_bytes, .. } = endpoint.sizes();
        let Some(_share) = Share::take(count * slot_bytes, pool_bytes) else { return Ok(None) };
        let memory =
            Buffer::allocate(count * slot_bytes).map_err(|source| FabricFault { call: "mmap", source })?;
        let registration = match endpoint.wants_registration() {
            // SAFETY: kept behind the registration, and only used through windows.
            true => Some(unsafe { endpoint.register((memory.start(), memory.len()), FI_WRITE)? }),
            false => None,
        };
        Ok(Some(Self { registration, memory, slot_bytes, count, free: (0..count).collect(), _share }))
    }

    #[inline]
    pub(super) fn slot(&self, number: usize) -> WindowMut<'_> {
        self.memory.window_mut().part(number * self.slot_bytes, self.slot_bytes)
    }

    pub(super) fn descriptor(&self) -> *mut c_void {
        self.registration.as_ref().map_or(null_mut(), Registration::descriptor)
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<usize> {
        self.free.pop()
    }

    #[inline]
    pub(super) fn put_back(&mut self, number: usize) {
        self.free.push(number);
    }

    /// Whether everything is under way.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.free.len() == self.count
    }
}
