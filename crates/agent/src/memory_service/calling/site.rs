//! What functions reach at a memory server: regions of its store, directly.

use std::sync::Weak;
use std::sync::atomic::{Ordering, fence};

use outboard_calling::{Access, Ambient, Operation, Site, Ticket};
use outboard_link::memory::Segment;
use outboard_wire::calling::TrapReason;

use crate::store::{Entered, Gate};

/// The memory of this server. Every access ends at once.
pub(super) struct ServerSite {
    ambient: Ambient,
    /// The regions that functions have used in this turn.
    entered: Vec<Entered>,
}

impl ServerSite {
    pub(super) fn new(ambient: Ambient) -> Self {
        Self { ambient, entered: Vec::new() }
    }

    /// Ends a turn: from now on regions can be freed or taken away. Nobody may wait for the store before.
    pub(super) fn leave(&mut self) {
        self.entered.clear();
    }

    /// The memory of a region, if it is still the one that was registered.
    #[inline(always)]
    fn memory(&mut self, region: &Weak<Gate>) -> Option<(&Segment, u64)> {
        let place = match self.entered.iter().position(|entered| entered.is_of(region)) {
            Some(place) => place,
            None => {
                self.entered.push(region.upgrade()?.enter()?);
                self.entered.len() - 1
            }
        };
        Some(self.entered[place].memory())
    }

    /// Does something with `length` bytes of a region, if they are there.
    #[inline(always)]
    fn with_memory(
        &mut self,
        region: &Weak<Gate>,
        (offset, length): (u64, usize),
        use_it: impl FnOnce(&Segment, usize) -> u64,
    ) -> Access {
        match self.memory(region) {
            None => Access::Refused(TrapReason::RegionGone),
            Some((memory, size)) if is_inside(offset, length, size) => {
                Access::Done(use_it(memory, offset as usize))
            }
            Some(_) => Access::Refused(TrapReason::OutOfBounds),
        }
    }

    #[inline]
    fn with_word(
        &mut self,
        region: &Weak<Gate>,
        offset: u64,
        use_it: impl FnOnce(&Segment, usize) -> u64,
    ) -> Access {
        if offset.is_multiple_of(8) {
            self.with_memory(region, (offset, 8), use_it)
        } else {
            Access::Refused(TrapReason::Misaligned)
        }
    }
}

fn is_inside(offset: u64, length: usize, size: u64) -> bool {
    offset.checked_add(length as u64).is_some_and(|end| end <= size)
}

/// What is brought nearer of a long read, in bytes: processors guess what follows.
const APPROACHED_MAX: usize = 1024;

impl Site for ServerSite {
    type Region = Weak<Gate>;

    // Inlined: what it returns would otherwise be put together in memory, and waited for there.
    #[inline(always)]
    fn read(&mut self, region: &Weak<Gate>, offset: u64, into: &mut [u8]) -> Access {
        self.with_memory(region, (offset, into.len()), |memory, at| {
            memory.window(at, into.len()).read(0, into);
            // What the function reads next is no older than this.
            fence(Ordering::Acquire);
            0
        })
    }

    fn write(&mut self, region: &Weak<Gate>, offset: u64, from: &[u8]) -> Access {
        self.with_memory(region, (offset, from.len()), |memory, at| {
            // Whoever sees this sees what was written before.
            fence(Ordering::Release);
            memory.window_mut(at, from.len()).write(0, from);
            0
        })
    }

    fn compare_swap(&mut self, region: &Weak<Gate>, offset: u64, (expected, desired): (u64, u64)) -> Access {
        self.with_word(region, offset, |memory, at| {
            let word = memory.word(at);
            let (expected, desired) = (expected.to_le(), desired.to_le());
            let swapped = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            u64::from_le(swapped.unwrap_or_else(|found| found))
        })
    }

    fn fetch_add(&mut self, region: &Weak<Gate>, offset: u64, addend: u64) -> Access {
        self.with_word(region, offset, |memory, at| memory.word(at).fetch_add(addend, Ordering::SeqCst))
    }

    fn begin(&mut self, _ticket: Ticket, _region: &Weak<Gate>, _operation: Operation<'_>) {
        unreachable!("no access of this site takes longer");
    }

    #[inline(always)]
    fn approach(&mut self, region: &Weak<Gate>, offset: u64, length: usize) -> bool {
        match self.memory(region) {
            Some((memory, size)) if is_inside(offset, length, size) => {
                memory.approach(offset as usize, length.min(APPROACHED_MAX))
            }
            // Reading will say why not.
            _ => false,
        }
    }

    fn time(&mut self) -> u64 {
        self.ambient.time()
    }

    fn random(&mut self) -> u64 {
        self.ambient.random()
    }

    fn log(&mut self, message: &[u8]) {
        self.ambient.log(message);
    }
}
