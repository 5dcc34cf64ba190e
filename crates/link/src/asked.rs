//! What an operation wanted, and how it is judged.

use outboard_wire::Rights;
use outboard_wire::access::Status;

use crate::{AccessError, AtOnce};

/// What an atomic needs.
pub(crate) const ATOMIC_RIGHTS: Rights = AtOnce::Atomic.needs();

/// What an operation wanted, so that a peer's bare status can be told to its caller in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) size: u64,
    pub(crate) needed: Rights,
}

impl Asked {
    pub(crate) fn verdict(&self, status: Status) -> Result<(), AccessError> {
        let Self { offset, len, size, needed } = *self;
        match status {
            Status::Done => Ok(()),
            Status::OutOfBounds => Err(AccessError::OutOfBounds { offset, len, size }),
            Status::NoRight => Err(AccessError::NoRight { needed }),
            Status::NotOpen => Err(AccessError::NotOpen),
            Status::Misaligned => Err(AccessError::Misaligned { offset }),
            Status::Busy => Err(AccessError::Busy),
            Status::NoDescriptors => Err(AccessError::OwnerLacksDescriptors),
        }
    }

    /// The one place where bounds, rights and alignment are judged, by both ends of every link.
    pub(crate) fn judge(&self, held: Rights, is_atomic: bool) -> Status {
        if !held.includes(self.needed) {
            Status::NoRight
        } else if self.offset.checked_add(self.len).is_none_or(|end| end > self.size) {
            Status::OutOfBounds
        } else if is_atomic && !self.offset.is_multiple_of(8) {
            Status::Misaligned
        } else {
            Status::Done
        }
    }
}
