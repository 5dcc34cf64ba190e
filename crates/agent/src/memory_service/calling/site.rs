//! What functions reach at a memory server: regions of its store, directly.

use std::sync::Weak;
use std::sync::atomic::{Ordering, fence};

use outboard_calling::{Access, Operation, Site, Ticket};
use outboard_driver::calling::Ambient;
use outboard_link::memory::Segment;
use outboard_wire::calling::TrapReason;

use crate::store::Gate;

/// The memory of this server. Every access ends at once.
pub(super) struct ServerSite {
    ambient: Ambient,
}

impl ServerSite {
    pub(super) fn new() -> Self {
        Self { ambient: Ambient::new() }
    }
}

/// Does something with `length` bytes of a region, if it is still the one that was registered.
fn with_memory(
    region: &Weak<Gate>,
    (offset, length): (u64, usize),
    use_it: impl FnOnce(&Segment, usize) -> u64,
) -> Access {
    let Some(gate) = region.upgrade() else { return Access::Refused(TrapReason::RegionGone) };
    let done = gate.with_memory(|memory, size| {
        let end = offset.checked_add(length as u64).filter(|end| *end <= size);
        end.map(|_| use_it(memory, offset as usize))
    });
    match done {
        None => Access::Refused(TrapReason::RegionGone),
        Some(None) => Access::Refused(TrapReason::OutOfBounds),
        Some(Some(value)) => Access::Done(value),
    }
}

fn with_word(region: &Weak<Gate>, offset: u64, use_it: impl FnOnce(&Segment, usize) -> u64) -> Access {
    if offset.is_multiple_of(8) {
        with_memory(region, (offset, 8), use_it)
    } else {
        Access::Refused(TrapReason::Misaligned)
    }
}

impl Site for ServerSite {
    type Region = Weak<Gate>;

    fn read(&mut self, region: &Weak<Gate>, offset: u64, into: &mut [u8]) -> Access {
        with_memory(region, (offset, into.len()), |memory, at| {
            memory.window(at, into.len()).read(0, into);
            // What the function reads next is no older than this.
            fence(Ordering::Acquire);
            0
        })
    }

    fn write(&mut self, region: &Weak<Gate>, offset: u64, from: &[u8]) -> Access {
        with_memory(region, (offset, from.len()), |memory, at| {
            // Whoever sees this sees what was written before.
            fence(Ordering::Release);
            memory.window_mut(at, from.len()).write(0, from);
            0
        })
    }

    fn compare_swap(&mut self, region: &Weak<Gate>, offset: u64, (expected, desired): (u64, u64)) -> Access {
        with_word(region, offset, |memory, at| {
            let word = memory.word(at);
            let (expected, desired) = (expected.to_le(), desired.to_le());
            let swapped = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            u64::from_le(swapped.unwrap_or_else(|found| found))
        })
    }

    fn fetch_add(&mut self, region: &Weak<Gate>, offset: u64, addend: u64) -> Access {
        with_word(region, offset, |memory, at| memory.word(at).fetch_add(addend, Ordering::SeqCst))
    }

    fn begin(&mut self, _ticket: Ticket, _region: &Weak<Gate>, _operation: Operation<'_>) {
        unreachable!("no access of this site takes longer");
    }

    fn time(&mut self) -> u64 {
        self.ambient.time()
    }

    fn random(&mut self) -> u64 {
        self.ambient.random()
    }

    fn log(&mut self, message: &[u8]) {
        tracing::debug!("a function says: {}", String::from_utf8_lossy(message));
    }
}
