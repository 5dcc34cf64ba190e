//! The memory server: regions that are read one-sidedly, write-backs and fences.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, Origin, Outbox, Service};
use outboard_link::{Disposition, Export, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::paging::{FIXED_LEN_MAX, Reply, Request, Status};
use outboard_wire::{FrameHead, Time};

use super::layout::{REGIONS, RIGHTS, grant};
use super::model::Regions;
use crate::Boot;

/// Answers write-backs and fences as memory servers do. Its links have threads of their own, and each is late now and
/// then: what has come by one link may be done long after what comes by another, also if the link is lost meanwhile.
pub(super) struct Server {
    regions: Regions,
    epochs: [u64; REGIONS],
    outbox: Outbox,
    random: Rng,
    /// How long a thread is late at most; never if zero.
    late_max: Duration,
    /// Until when the threads of links do something else.
    busy_until: BTreeMap<LinkId, Time>,
}

impl Server {
    pub(super) fn new(boot: Boot, regions: Regions, late_max: Duration) -> Self {
        for (number, region) in regions.iter().enumerate() {
            let grant = grant(number);
            let (memory, keys) = (Arc::clone(region), vec![(grant.key, RIGHTS)]);
            boot.exports.add(Export { region: grant.region, generation: grant.generation, memory, keys });
        }
        Self {
            regions,
            epochs: [1; REGIONS],
            outbox: Outbox::default(),
            random: boot.random,
            late_max,
            busy_until: BTreeMap::new(),
        }
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

    fn serve(&mut self, request: &Request, frame: &Frame<'_>, fixed_len: usize) -> Option<Reply> {
        match request {
            Request::WriteBack(back) => {
                let region = (back.region.0 as usize).checked_sub(1)?;
                let epoch = *self.epochs.get(region)?;
                if back.epoch != epoch {
                    return Some(Reply::Written { status: Status::StaleEpoch, epoch });
                }
                let data = frame.payload.part(fixed_len, back.length as usize);
                self.regions[region].window_mut(back.offset as usize, data.len()).write_window(0, data);
                Some(Reply::Written { status: Status::Done, epoch })
            }
            Request::Fence(fence) => {
                let epoch = self.epochs.get_mut((fence.region.0 as usize).checked_sub(1)?)?;
                *epoch += 1;
                Some(Reply::Fenced { status: Status::Done, epoch: *epoch })
            }
            _ => None,
        }
    }
}

impl Service for Server {
    type Note = ();

    fn on_open(&mut self, _: LinkId, _: &Peer, _: Origin, _: Time) {}

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) || self.is_busy(link, now) {
            return Disposition::Deferred;
        }
        let kind = frame.head.kind;
        let Some(len) = Request::fixed_len(kind) else { return Disposition::Taken };
        let mut fixed = [0; FIXED_LEN_MAX];
        frame.payload.read(0, &mut fixed[..len]);
        let request = Request::decode(kind, &fixed[..len], frame.payload.len() - len);
        let reply = request.ok().and_then(|request| self.serve(&request, &frame, len));
        if let Some(reply) = reply {
            let head = FrameHead::new(reply.kind()).with_tag(frame.head.tag);
            self.outbox.push_copy(link, head, reply.encode().as_bytes());
        }
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
