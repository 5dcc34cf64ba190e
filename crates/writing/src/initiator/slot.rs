//! The regions that a writer has open.

use outboard_contract::{AccessError, OpenRegion};
use outboard_wire::access::Status;
use outboard_wire::writing::{Present, WriterId};
use outboard_wire::{Grant, Rights};

use crate::{Fault, Span};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) open: OpenRegion,
    pub(super) grant: Grant,
    pub(super) rights: Rights,
}

impl Slot {
    /// The one judgement for both paths, in the order in which the target judges.
    #[inline]
    pub(super) fn judge(&self, offset: u64, len: usize) -> Result<(), AccessError> {
        let (len, size) = (len as u64, self.grant.size);
        if !self.rights.includes(Rights::WRITE) {
            return Err(AccessError::NoRight { needed: Rights::WRITE });
        }
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(AccessError::OutOfBounds { offset, len, size }),
        }
    }

    pub(super) fn present(&self, writer: WriterId, attempt: u32, slot: u32) -> Present {
        let Grant { region, generation, key, .. } = self.grant;
        Present { writer, attempt, slot, region, generation, key }
    }

    /// What the target's bare status means for a write.
    pub(super) fn refusal(&self, status: Status, span: &Span) -> AccessError {
        let (offset, len, size) = (span.offset, span.len, self.grant.size);
        match status {
            Status::OutOfBounds => AccessError::OutOfBounds { offset, len, size },
            Status::NoRight => AccessError::NoRight { needed: Rights::WRITE },
            Status::Busy => AccessError::Busy,
            Status::NoDescriptors => AccessError::OwnerLacksDescriptors,
            Status::Misaligned => AccessError::Misaligned { offset },
            Status::NotOpen | Status::Done => AccessError::NotOpen,
        }
    }
}

/// What an error of the one-sided path means for a write.
pub(super) fn fault_of(error: &AccessError) -> Fault {
    Fault::Refused(match error {
        AccessError::OutOfBounds { .. } => Status::OutOfBounds,
        AccessError::NoRight { .. } => Status::NoRight,
        AccessError::Misaligned { .. } => Status::Misaligned,
        AccessError::Lost(_) => return Fault::Lost,
        AccessError::Busy => Status::Busy,
        AccessError::OwnerLacksDescriptors => Status::NoDescriptors,
        _ => Status::NotOpen,
    })
}
