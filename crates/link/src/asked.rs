//! The wishes of operations, and how they are judged.

use outboard_wire::Rights;
use outboard_wire::access::AccessStatus;

use crate::{AccessError, ImmediateAccess};

/// The rights that an atomic needs.
pub(crate) const ATOMIC_RIGHTS: Rights = ImmediateAccess::Atomic.needs();

/// The wish of an operation, kept so that a peer's bare status can be told to its caller in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) size: u64,
    pub(crate) needed: Rights,
}

impl Asked {
    pub(crate) fn verdict(&self, status: AccessStatus) -> Result<(), AccessError> {
        let Self { offset, len, size, needed } = *self;
        match status {
            AccessStatus::Done => Ok(()),
            AccessStatus::OutOfBounds => Err(AccessError::OutOfBounds { offset, len, size }),
            AccessStatus::NoRight => Err(AccessError::NoRight { needed }),
            AccessStatus::NotOpen => Err(AccessError::NotOpen),
            AccessStatus::Misaligned => Err(AccessError::Misaligned { offset }),
            AccessStatus::Busy => Err(AccessError::Busy),
            AccessStatus::NoDescriptors => Err(AccessError::OwnerLacksDescriptors),
            AccessStatus::NoMemory => Err(AccessError::OwnerLacksMemory),
        }
    }

    /// The one place where bounds, rights and alignment are judged, by both ends of every link.
    pub(crate) fn judge(&self, held: Rights, is_atomic: bool) -> AccessStatus {
        if !held.includes(self.needed) {
            AccessStatus::NoRight
        } else if self.offset.checked_add(self.len).is_none_or(|end| end > self.size) {
            AccessStatus::OutOfBounds
        } else if is_atomic && !self.offset.is_multiple_of(8) {
            AccessStatus::Misaligned
        } else {
            AccessStatus::Done
        }
    }
}
