//! A region whose accesses end at once.

use outboard_calling::{AccessProgress, SiteHost, SiteOperation, Ticket};
use outboard_wire::calling::TrapReason;

/// The region.
pub(crate) struct NearSite {
    pub(crate) region: Vec<u8>,
}

impl NearSite {
    fn at(&mut self, offset: u64, length: usize) -> Result<&mut [u8], AccessProgress> {
        let start = offset as usize;
        let end = start.checked_add(length).ok_or(AccessProgress::Refused(TrapReason::OutOfBounds))?;
        self.region.get_mut(start..end).ok_or(AccessProgress::Refused(TrapReason::OutOfBounds))
    }

    fn change(&mut self, offset: u64, new: impl FnOnce(u64) -> u64) -> AccessProgress {
        match self.at(offset, 8) {
            Ok(word) => {
                let was = u64::from_le_bytes(word.try_into().unwrap());
                word.copy_from_slice(&new(was).to_le_bytes());
                AccessProgress::Done(was)
            }
            Err(refused) => refused,
        }
    }
}

impl SiteHost for NearSite {
    type Region = ();

    fn read(&mut self, (): &(), offset: u64, into: &mut [u8]) -> AccessProgress {
        self.at(offset, into.len()).map_or_else(
            |refused| refused,
            |bytes| {
                into.copy_from_slice(bytes);
                AccessProgress::Done(0)
            },
        )
    }

    fn write(&mut self, (): &(), offset: u64, from: &[u8]) -> AccessProgress {
        self.at(offset, from.len()).map_or_else(
            |refused| refused,
            |bytes| {
                bytes.copy_from_slice(from);
                AccessProgress::Done(0)
            },
        )
    }

    fn compare_swap(&mut self, (): &(), offset: u64, (expected, desired): (u64, u64)) -> AccessProgress {
        self.change(offset, |was| if was == expected { desired } else { was })
    }

    fn fetch_add(&mut self, (): &(), offset: u64, addend: u64) -> AccessProgress {
        self.change(offset, |was| was.wrapping_add(addend))
    }

    fn begin(&mut self, _ticket: Ticket, (): &(), _operation: SiteOperation<'_>) {
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
