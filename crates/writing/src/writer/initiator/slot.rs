//! The regions that a writer has open.

use outboard_contract::{AccessError, AccessOutcome, OpenRegion, RemoteMemory};
use outboard_wire::access::AccessStatus;
use outboard_wire::writing::{Present, SLOTS_MAX, WriterId};
use outboard_wire::{Grant, Rights};

use super::{Initiator, OPENING};
use crate::{WriteFault, WriteSpan};

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
    pub(super) fn refusal(&self, status: AccessStatus, span: &WriteSpan) -> AccessError {
        let (offset, len, size) = (span.offset, span.len, self.grant.size);
        match status {
            AccessStatus::OutOfBounds => AccessError::OutOfBounds { offset, len, size },
            AccessStatus::NoRight => AccessError::NoRight { needed: Rights::WRITE },
            AccessStatus::Busy => AccessError::Busy,
            AccessStatus::NoDescriptors => AccessError::OwnerLacksDescriptors,
            AccessStatus::NoMemory => AccessError::OwnerLacksMemory,
            AccessStatus::Misaligned => AccessError::Misaligned { offset },
            AccessStatus::NotOpen | AccessStatus::Done => AccessError::NotOpen,
        }
    }
}

impl Initiator {
    /// Asks the server for a region, to write as far as the grant allows it. [`opened`](Self::opened) tells what came of it.
    pub fn open<L: RemoteMemory>(&mut self, link: &mut L, grant: &Grant) -> Result<(), AccessError> {
        let wanted = if self.is_mapped { Rights::READ.and(Rights::WRITE) } else { Rights::WRITE };
        let rights = if grant.rights.includes(wanted) { wanted } else { Rights::READ };
        self.opened = None;
        link.open(grant, rights, OPENING)?;
        self.opening = Some((*grant, rights));
        Ok(())
    }

    /// The slot that stands for the region that was asked for, or why there is none. Nothing while the server has not answered.
    pub fn opened<L: RemoteMemory>(&mut self, link: &mut L) -> Option<Result<u32, AccessError>> {
        let outcome = self.opened.take()?;
        let (grant, rights) = self.opening.take()?;
        Some(outcome.and_then(|outcome| {
            let AccessOutcome::Opened(open) = outcome else { return Err(AccessError::NotOpen) };
            let free = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
            if free >= SLOTS_MAX as usize {
                link.close_region(open);
                return Err(AccessError::Busy);
            }
            if free == self.slots.len() {
                self.slots.push(None);
            }
            self.slots[free] = Some(Slot { open, grant, rights });
            // Regions are presented with an attachment; one that comes later needs a word of its own.
            self.is_introduced = false;
            Ok(free as u32)
        }))
    }

    /// Gives a region back. Writes to it must have ended.
    pub fn close_region<L: RemoteMemory>(&mut self, link: &mut L, slot: u32) {
        if let Some(slot) = self.slots.get_mut(slot as usize).and_then(Option::take) {
            link.close_region(slot.open);
        }
    }
}

/// What an error of the one-sided path means for a write.
pub(super) fn fault_of(error: &AccessError) -> WriteFault {
    WriteFault::Refused(match error {
        AccessError::OutOfBounds { .. } => AccessStatus::OutOfBounds,
        AccessError::NoRight { .. } => AccessStatus::NoRight,
        AccessError::Misaligned { .. } => AccessStatus::Misaligned,
        AccessError::Lost(_) => return WriteFault::Lost,
        AccessError::Busy => AccessStatus::Busy,
        AccessError::OwnerLacksDescriptors => AccessStatus::NoDescriptors,
        AccessError::OwnerLacksMemory => AccessStatus::NoMemory,
        _ => AccessStatus::NotOpen,
    })
}
