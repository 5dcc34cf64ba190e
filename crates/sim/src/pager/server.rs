//! The memory server: regions that are read one-sidedly, write-backs and fences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::{Disposition, Export, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::{Generation, RegionKey, Time};

use super::STORM;
use super::layout::{RIGHTS, Shape};
use super::model::{Memories, Memory};
use crate::Boot;

/// Answers write-backs and fences by the product's half of the protocol. Its links have threads of their own, and each is late now and
/// then: what has come by one link may be done long after what comes by another, also if the link is lost meanwhile.
pub(super) struct Server {
    number: usize,
    memories: Memories,
    outbox: Outbox,
    random: Rng,
    /// How long a thread is late at most; never if zero.
    late_max: Duration,
    /// Until when the threads of links do something else.
    busy_until: BTreeMap<LinkId, Time>,
}

impl Server {
    pub(super) fn new(
        boot: Boot,
        number: usize,
        shape: &Shape,
        memories: Memories,
        late_max: Duration,
    ) -> Self {
        let memory = Memory::new(boot.incarnation, number, shape);
        for (region, known) in &memory.regions {
            let (bytes, keys) = (Arc::clone(&known.bytes), vec![(RegionKey([region.0 as u8; 16]), RIGHTS)]);
            boot.exports.add(Export { region: *region, generation: Generation(1), memory: bytes, keys });
        }
        memories.borrow_mut()[number] = Some(memory);
        let (outbox, random, busy_until) = (Outbox::default(), boot.random, BTreeMap::new());
        Self { number, memories, outbox, random, late_max, busy_until }
    }

    /// The write epoch of a region.
    #[cfg(test)]
    pub(super) fn epoch(&self, region: outboard_wire::RegionId) -> u64 {
        let memories = self.memories.borrow();
        memories[self.number].as_ref().map_or(0, |memory| memory.regions[&region].epoch.now())
    }

    /// Whether the thread of a link has time for a frame.
    fn is_busy(&mut self, link: LinkId, now: Time) -> bool {
        if !self.late_max.is_zero() && self.random.u8(..16) == 0 {
            let late = self.late_max.mul_f64(self.random.f64());
            self.busy_until.entry(link).or_insert(now + late);
        }
        if self.busy_until.get(&link).is_some_and(|until| now < *until) {
            return true;
        }
        self.busy_until.remove(&link);
        false
    }
}

impl Service for Server {
    type Note = ();

    fn on_open(&mut self, _: LinkId, _: &Peer, _: LinkOrigin, _: Time) {}

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) || self.is_busy(link, now) {
            return Disposition::Deferred;
        }
        let memories = self.memories.borrow();
        let regions = memories[self.number].as_ref().map(|memory| &memory.regions);
        // Others take its room now and then, and give it back.
        let is_over = now >= Time::ZERO + STORM;
        if is_over || self.random.u8(..32) == 0 {
            let is_full = !is_over && self.random.bool();
            let all = regions.into_iter().flat_map(|regions| regions.values());
            all.for_each(|region| region.is_full.store(is_full, Ordering::Relaxed));
        }
        outboard_paging::server::on_frame(link, &frame, &mut self.outbox, |region| {
            regions?.get(&region).cloned()
        });
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.outbox.forget(link);
        self.busy_until.remove(&link);
    }
}
