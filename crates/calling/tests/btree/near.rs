//! A region whose accesses end at once.

use outboard_calling::{Access, Operation, Site, Ticket};
use outboard_wire::calling::TrapReason;

/// The region.
pub(crate) struct NearSite {
    pub(crate) region: Vec<u8>,
}

impl NearSite {
    fn at(&mut self, offset: u64, length: usize) -> Result<&mut [u8], Access> {
        let start = offset as usize;
        let end = start.checked_add(length).ok_or(Access::Refused(TrapReason::OutOfBounds))?;
        self.region.get_mut(start..end).ok_or(Access::Refused(TrapReason::OutOfBounds))
    }

    fn change(&mut self, offset: u64, new: impl FnOnce(u64) -> u64) -> Access {
        match self.at(offset, 8) {
            Ok(word) => {
                let was = u64::from_le_bytes(word.try_into().unwrap());
                word.copy_from_slice(&new(was).to_le_bytes());
                Access::Done(was)
            }
            Err(refused) => refused,
        }
    }
}

impl Site for NearSite {
    type Region = ();

    fn read(&mut self, (): &(), offset: u64, into: &mut [u8]) -> Access {
        self.at(offset, into.len()).map_or_else(
            |refused| refused,
            |bytes| {
                into.copy_from_slice(bytes);
                Access::Done(0)
            },
        )
    }

    fn write(&mut self, (): &(), offset: u64, from: &[u8]) -> Access {
        self.at(offset, from.len()).map_or_else(
            |refused| refused,
            |bytes| {
                bytes.copy_from_slice(from);
                Access::Done(0)
            },
        )
    }

    fn compare_swap(&mut self, (): &(), offset: u64, (expected, desired): (u64, u64)) -> Access {
        self.change(offset, |was| if was == expected { desired } else { was })
    }

    fn fetch_add(&mut self, (): &(), offset: u64, addend: u64) -> Access {
        self.change(offset, |was| was.wrapping_add(addend))
    }

    fn begin(&mut self, _ticket: Ticket, (): &(), _operation: Operation<'_>) {
        unreachable!("no access takes longer");
    }

    /// So that functions that only read overlap.
    fn approach(&mut self, (): &(), _offset: u64, _length: usize) -> bool {
        true
    }

    fn time(&mut self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        4
    }

    fn log(&mut self, _message: &[u8]) {}
}
