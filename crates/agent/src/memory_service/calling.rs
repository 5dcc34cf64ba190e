//! Calls of functions, run by the workers that their links belong to, on regions of the store.

use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Weak};

use outboard_calling::{
    AccessProgress, Ambient, CallingDesk, FindRegion, Refused, SiteHost, SiteOperation, SlotDesk, Ticket,
};
use outboard_driver::{LinkId, Outbox};
use outboard_link::memory::Segment;
use outboard_link::{Disposition, Frame};
use outboard_paging::server::Home;
use outboard_wire::calling::{Allowed, CallerId, RegisterRefusal, TrapReason};
use outboard_wire::{Rights, Role, Time};

use super::gates::Gates;
use super::{MemoryService, SharedStore};
use crate::calling::ambient;
use crate::store::{Entered, Gate};

/// What one worker does about calls.
pub(super) struct Calling {
    desk: CallingDesk<Weak<Gate>>,
    slots: SlotDesk,
    site: ServerSite,
}

impl Calling {
    pub(super) fn new(store: &SharedStore) -> Self {
        let desk = CallingDesk::new(Arc::clone(&store.calling.calls), store.calling.config);
        let slots = SlotDesk::new(Arc::clone(&store.steering.controller));
        store.steering.add_worker(desk.meter());
        Self { desk, slots, site: ServerSite::new(ambient()) }
    }

    /// Slots were moved: the clients that asked are told.
    pub(super) fn tell_table(&mut self, outbox: &mut Outbox) {
        self.slots.tell_table(&mut self.desk, outbox);
    }

    pub(super) fn on_lost(&mut self, link: LinkId) {
        self.desk.on_lost(link);
        self.slots.on_lost(link);
    }
}

/// Finds regions in the store.
struct StoreRegions<'a> {
    gates: &'a mut Gates,
    store: &'a SharedStore,
}

impl FindRegion for StoreRegions<'_> {
    type Region = Weak<Gate>;

    fn find(&mut self, _by: CallerId, allowed: &Allowed) -> Result<Option<Weak<Gate>>, Refused> {
        let region = allowed.region;
        let gate = self.gates.find(region, self.store);
        let held = gate.as_ref().and_then(|gate| gate.rights(allowed.generation, &allowed.key));
        let (Some(gate), Some(held)) = (gate, held) else {
            return Err((RegisterRefusal::NoRegion, format!("no {region} with this generation and key")));
        };
        let wanted = allowed.rights.and(Rights::CALL);
        if !held.includes(wanted) {
            let detail = format!(
                "the key to {region} allows {held}, and {wanted} is needed: open the region with these rights"
            );
            return Err((RegisterRefusal::NoRight, detail));
        }
        // A site that reaches it by a link believes what is said of its size.
        let size = gate.size();
        if allowed.size > size {
            return Err((
                RegisterRefusal::NoRegion,
                format!("{region} has {size} bytes, not {}", allowed.size),
            ));
        }
        Ok(Some(Arc::downgrade(&gate)))
    }
}

impl MemoryService {
    /// Does what a frame about calls asks.
    pub(super) fn on_calling(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let Calling { desk, slots, .. } = &mut self.calling;
        if SlotDesk::is_about_slots(frame.head.kind) {
            let is_agent = self.peers.get(&link).is_some_and(|peer| peer.intro().role == Role::Agent);
            slots.on_frame((link, frame, now), is_agent, desk, &mut self.outbox);
            return Disposition::Taken;
        }
        let regions = &mut StoreRegions { gates: &mut self.gates, store: &self.store };
        desk.on_frame((link, frame, now), regions, &mut self.outbox)
    }

    /// Runs calls for a while. Returns whether there were any.
    pub(super) fn run_calls(&mut self, now: Time) -> bool {
        let Calling { desk, site, .. } = &mut self.calling;
        let moved = desk.run(now, site, &mut self.outbox);
        site.leave();
        self.store.calling.counts.add(desk.take_counts(), &self.counts);
        moved
    }
}

/// The memory of this server. Every access ends at once.
struct ServerSite {
    ambient: Ambient,
    /// The regions that functions have used in this turn.
    entered: Vec<Entered>,
}

impl ServerSite {
    fn new(ambient: Ambient) -> Self {
        Self { ambient, entered: Vec::new() }
    }

    /// Ends a turn: from now on regions can be freed or taken away. No thread may wait for the store before.
    fn leave(&mut self) {
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
    ) -> AccessProgress {
        match self.memory(region) {
            None => AccessProgress::Refused(TrapReason::RegionGone),
            Some((memory, size)) if is_inside(offset, length, size) => {
                AccessProgress::Done(use_it(memory, offset as usize))
            }
            Some(_) => AccessProgress::Refused(TrapReason::OutOfBounds),
        }
    }

    /// Does something that writes `length` bytes of a region, if they are there and may be written.
    #[inline]
    fn with_room(
        &mut self,
        region: &Weak<Gate>,
        (offset, length): (u64, usize),
        use_it: impl FnOnce(&Segment, usize) -> u64,
    ) -> AccessProgress {
        match self.memory(region) {
            // On a file system that is full a store would be a fault.
            Some((memory, size))
                if memory.is_sparse_file()
                    && is_inside(offset, length, size)
                    && !memory.may_be_written(offset as usize, length) =>
            {
                AccessProgress::Refused(TrapReason::NotReached)
            }
            _ => self.with_memory(region, (offset, length), use_it),
        }
    }

    #[inline]
    fn with_word(
        &mut self,
        region: &Weak<Gate>,
        offset: u64,
        use_it: impl FnOnce(&Segment, usize) -> u64,
    ) -> AccessProgress {
        if offset.is_multiple_of(8) {
            self.with_room(region, (offset, 8), use_it)
        } else {
            AccessProgress::Refused(TrapReason::Misaligned)
        }
    }
}

fn is_inside(offset: u64, length: usize, size: u64) -> bool {
    offset.checked_add(length as u64).is_some_and(|end| end <= size)
}

/// What is brought nearer of a long read, in bytes: processors guess what follows.
const APPROACHED_MAX: usize = 1024;

impl SiteHost for ServerSite {
    type Region = Weak<Gate>;

    // Inlined: what it returns would otherwise be put together in memory, and waited for there.
    #[inline(always)]
    fn read(&mut self, region: &Weak<Gate>, offset: u64, into: &mut [u8]) -> AccessProgress {
        self.with_memory(region, (offset, into.len()), |memory, at| {
            memory.window(at, into.len()).read(0, into);
            // What the function reads next is no older than this.
            fence(Ordering::Acquire);
            0
        })
    }

    fn write(&mut self, region: &Weak<Gate>, offset: u64, from: &[u8]) -> AccessProgress {
        self.with_room(region, (offset, from.len()), |memory, at| {
            // A thread that sees this sees what was written before.
            fence(Ordering::Release);
            memory.window_mut(at, from.len()).write(0, from);
            0
        })
    }

    fn compare_swap(
        &mut self,
        region: &Weak<Gate>,
        offset: u64,
        (expected, desired): (u64, u64),
    ) -> AccessProgress {
        self.with_word(region, offset, |memory, at| {
            let word = memory.word(at);
            let (expected, desired) = (expected.to_le(), desired.to_le());
            let swapped = word.compare_exchange(expected, desired, Ordering::SeqCst, Ordering::SeqCst);
            u64::from_le(swapped.unwrap_or_else(|found| found))
        })
    }

    fn fetch_add(&mut self, region: &Weak<Gate>, offset: u64, addend: u64) -> AccessProgress {
        self.with_word(region, offset, |memory, at| memory.word(at).fetch_add(addend, Ordering::SeqCst))
    }

    fn begin(&mut self, _ticket: Ticket, _region: &Weak<Gate>, _operation: SiteOperation<'_>) {
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
