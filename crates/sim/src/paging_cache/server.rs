//! The memory server: regions, write-backs and fences.

use std::sync::Arc;

use outboard_driver::{LinkId, Origin, Outbox, Service};
use outboard_link::memory::Segment;
use outboard_link::{Disposition, Export, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::paging::{FIXED_LEN_MAX, Reply, Request, Status};
use outboard_wire::{FrameHead, RegionId, Time};

use super::layout::{APPLICATIONS_MAX, RIGHTS, SIZE, grant};
use crate::Boot;

/// The bytes of one region and its write epoch.
pub(super) struct Region {
    pub(super) bytes: Arc<Segment>,
    epoch: u64,
}

/// Answers write-backs and fences as memory servers do.
pub(super) struct Server {
    pub(super) memory: Vec<Region>,
    outbox: Outbox,
}

impl Server {
    pub(super) fn new(boot: &Boot) -> Self {
        let region = |application| {
            // Without some pages of memory there is nothing to simulate.
            let len = SIZE.next_multiple_of(4096);
            let bytes = Arc::new(Segment::create(c"outboard-sim", len).expect("some pages of memory"));
            let grant = grant(application);
            let (memory, keys) = (Arc::clone(&bytes), vec![(grant.key, RIGHTS)]);
            boot.exports.add(Export { region: grant.region, generation: grant.generation, memory, keys });
            Region { bytes, epoch: 1 }
        };
        Self { memory: (0..APPLICATIONS_MAX).map(region).collect(), outbox: Outbox::default() }
    }

    fn region(&mut self, region: RegionId) -> Option<&mut Region> {
        self.memory.get_mut(usize::try_from(region.0).ok()?.checked_sub(1)?)
    }

    fn serve(&mut self, request: &Request, frame: &Frame<'_>, fixed_len: usize) -> Option<Reply> {
        match request {
            Request::WriteBack(back) => {
                let region = self.region(back.region)?;
                if back.epoch < region.epoch {
                    return Some(Reply::Written { status: Status::StaleEpoch, epoch: region.epoch });
                }
                let data = frame.payload.part(fixed_len, back.length as usize);
                region.bytes.window_mut(back.offset as usize, data.len()).write_window(0, data);
                Some(Reply::Written { status: Status::Done, epoch: region.epoch })
            }
            Request::Fence(fence) => {
                let region = self.region(fence.region)?;
                region.epoch += 1;
                Some(Reply::Fenced { status: Status::Done, epoch: region.epoch })
            }
            _ => None,
        }
    }
}

impl Service for Server {
    type Note = ();

    fn on_open(&mut self, _: LinkId, _: &Peer, _: Origin, _: Time) {}

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        if !self.outbox.has_room(link) {
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
    }
}
