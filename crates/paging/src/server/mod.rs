//! The memory server's side: written chunks come home, and fences shut out those that come late.
//!
//! Reading needs nothing here: agents and applications read one-sidedly. A write-back is a frame, since an agent that was
//! stopped in the middle of a copy into mapped memory would go on with it after it was fenced off. Every write-back carries
//! the epoch in which it was sent, and a [`WriteEpoch`] lets in those of the present one only.

mod epoch;

use std::sync::Arc;

use outboard_contract::memory::{Mapping, Window};
use outboard_contract::{Frame, LinkId, Outbox};
use outboard_wire::paging::{Fence, Refusal, Reply, Request, Status, WriteBack};
use outboard_wire::{FrameHead, Generation, RegionId, RegionKey, Rights, mutant};

pub use epoch::{HeldEpoch, WriteEpoch};

use crate::frame::read_request;

/// A region of the store's, as those who bring written bytes see it.
pub trait Home {
    /// What `key` allows, if it opens this life of the region.
    fn rights(&self, generation: Generation, key: &RegionKey) -> Option<Rights>;

    /// How many bytes its users may use of the memory.
    fn size(&self) -> u64;

    /// The memory.
    fn memory(&self) -> &Mapping;

    /// The write epoch.
    fn epoch(&self) -> &WriteEpoch;

    /// Puts `data` where it belongs, unless its epoch is over. Returns the present epoch too, to those who may write.
    fn write_back(&self, back: &WriteBack, data: Window<'_>) -> (Status, u64) {
        let status = may_write(self, back.generation, &back.key);
        if status != Status::Done {
            return (status, 0);
        }
        // Held until the bytes are there: a fence waits for them.
        let Some(held) = self.epoch().hold() else { return (Status::NotOpen, 0) };
        let epoch = held.epoch();
        let is_inside = back.offset.checked_add(data.len() as u64).is_some_and(|end| end <= self.size());
        // An epoch that has not begun is nobody's either.
        if back.epoch != epoch && !mutant("paging.stale-epoch-accepted") {
            return (Status::StaleEpoch, epoch);
        }
        if !is_inside {
            return (Status::OutOfBounds, epoch);
        }
        if !mutant("paging.acknowledged-and-not-written") {
            self.memory().window_mut(back.offset as usize, data.len()).write_window(0, data);
        }
        drop(held);
        (Status::Done, epoch)
    }

    /// Begins the next epoch for a process that may write: nothing of an earlier one is written from now on.
    fn fence(&self, fence: &Fence) -> (Status, u64) {
        match may_write(self, fence.generation, &fence.key) {
            Status::Done if mutant("paging.fence-skipped") => (Status::Done, self.epoch().now()),
            Status::Done => self.epoch().raise().map_or((Status::NotOpen, 0), |epoch| (Status::Done, epoch)),
            status => (status, 0),
        }
    }
}

/// What came of a frame about far memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// Write-backs whose bytes were written.
    pub done: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Write-backs of an epoch that is over.
    pub stale: u64,
}

/// Does what a frame about far memory asks, and queues the answer. `find` knows the regions.
pub fn on_frame<H: Home>(
    link: LinkId,
    frame: &Frame<'_>,
    outbox: &mut Outbox,
    find: impl FnOnce(RegionId) -> Option<Arc<H>>,
) -> Returned {
    let mut returned = Returned::default();
    let reply = match read_request(frame) {
        Some((Request::WriteBack(back), data)) => {
            let home = find(back.region);
            let (status, epoch) = home.map_or((Status::NotOpen, 0), |home| home.write_back(&back, data));
            match status {
                Status::Done => (returned.done, returned.bytes) = (1, data.len() as u64),
                Status::StaleEpoch => returned.stale = 1,
                _ => {}
            }
            Some(Reply::Written { status, epoch })
        }
        Some((Request::Fence(fence), _)) => {
            let home = find(fence.region);
            let (status, epoch) = home.map_or((Status::NotOpen, 0), |home| home.fence(&fence));
            Some(Reply::Fenced { status, epoch })
        }
        // Whoever has a link to the server reads one-sidedly.
        Some((Request::Attach(_), _)) => {
            let detail = "this is a memory server; attach regions at an agent";
            Some(Reply::refused(Refusal::BadRequest, detail))
        }
        Some((Request::Fetch(_), _)) => Some(Reply::not_fetched(Status::NotOpen)),
        Some((Request::Detach(_), _)) => None,
        None => Reply::to_malformed(frame.head.kind),
    };
    if let Some(reply) = reply {
        let head = FrameHead::new(reply.kind()).with_tag(frame.head.tag);
        outbox.push_copy(link, head, reply.encode().as_bytes());
    }
    returned
}

fn may_write(home: &(impl Home + ?Sized), generation: Generation, key: &RegionKey) -> Status {
    match home.rights(generation, key) {
        None => Status::NotOpen,
        Some(rights) if rights.includes(Rights::WRITE) => Status::Done,
        Some(_) => Status::NoRight,
    }
}
