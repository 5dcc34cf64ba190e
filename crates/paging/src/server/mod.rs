//! The memory server's side: written chunks come home, and fences shut out those that come late.
//!
//! Reading needs nothing here: agents and applications read one-sidedly. A write-back is a frame, since an agent that was
//! stopped in the middle of a copy into mapped memory would go on with it after it was fenced off. Every write-back carries
//! the epoch in which it was sent, and a [`WriteEpoch`] lets in those of the present one only.

mod epoch;

use std::sync::Arc;

use outboard_contract::memory::{Mapping, Window};
use outboard_contract::{Frame, LinkId, Outbox};
use outboard_wire::paging::{AttachRefusal, Fence, PagingReply, PagingRequest, PagingStatus, WriteBack};
use outboard_wire::{FrameHead, Generation, RegionId, RegionKey, Rights, mutant};

pub use epoch::{HeldEpoch, WriteEpoch};

use crate::frame::read_request;

/// The unit in which bytes are discarded.
const PAGE: usize = 4096;

/// A region of the store's, as those who bring written bytes see it.
pub trait Home {
    /// The rights that `key` gives, if it opens this life of the region.
    fn rights(&self, generation: Generation, key: &RegionKey) -> Option<Rights>;

    /// How many bytes its users may use of the memory.
    fn size(&self) -> u64;

    /// The memory.
    fn memory(&self) -> &Mapping;

    /// The write epoch.
    fn epoch(&self) -> &WriteEpoch;

    /// Whether there is memory for what is written there. If not, the writer tries again later.
    fn may_be_written(&self, offset: usize, len: usize) -> bool {
        let _ = (offset, len);
        true
    }

    /// Takes room for bytes that are about to be written. Returns false if they were never written before and none is left.
    fn take_room(&self, _offset: u64, _len: u64) -> bool {
        true
    }

    /// Whether bytes that were written are as safe as the server promises, before that is acknowledged.
    fn is_settled(&self, _offset: usize, _len: usize) -> bool {
        true
    }

    /// Begins the next epoch and returns it, once it is as safe as the server promises; or why there is none.
    fn begin_epoch(&self) -> Result<u64, PagingStatus> {
        self.epoch().raise().ok_or(PagingStatus::NotOpen)
    }

    /// Gives the memory of whole pages back; they are zero from now on.
    fn give_back(&self, offset: usize, len: usize);

    /// The epoch of a write-back, held until the bytes are there: a fence waits for them. Or why it is refused, with the present
    /// epoch for those who may write.
    fn admit(&self, back: &WriteBack, len: u64) -> Result<HeldEpoch<'_>, (PagingStatus, u64)> {
        let status = may_write(self, back.generation, &back.key);
        if status != PagingStatus::Done {
            return Err((status, 0));
        }
        let held = self.epoch().hold().ok_or((PagingStatus::NotOpen, 0))?;
        let is_inside = back.offset.checked_add(len).is_some_and(|end| end <= self.size());
        // An epoch that has not begun belongs to no writer either.
        if back.epoch != held.epoch() && !mutant("paging.stale-epoch-accepted") {
            return Err((PagingStatus::StaleEpoch, held.epoch()));
        }
        if is_inside { Ok(held) } else { Err((PagingStatus::OutOfBounds, held.epoch())) }
    }

    /// Puts `data` where it belongs, unless its epoch is over. Returns the present epoch too, to those who may write.
    fn write_back(&self, back: &WriteBack, data: Window<'_>) -> (PagingStatus, u64) {
        let held = match self.admit(back, data.len() as u64) {
            Ok(held) => held,
            Err(refused) => return refused,
        };
        if !self.may_be_written(back.offset as usize, data.len()) {
            return (PagingStatus::Busy, held.epoch());
        }
        if !self.take_room(back.offset, data.len() as u64) {
            return (PagingStatus::NoRoom, held.epoch());
        }
        if !mutant("paging.acknowledged-and-not-written") {
            self.memory().window_mut(back.offset as usize, data.len()).write_window(0, data);
        }
        if !self.is_settled(back.offset as usize, data.len()) {
            return (PagingStatus::Busy, held.epoch());
        }
        (PagingStatus::Done, held.epoch())
    }

    /// Makes whole pages zero and gives their memory back, unless the epoch is over. Returns the present epoch too, to those
    /// who may write. The last page of a region may be cut short.
    fn discard(&self, back: &WriteBack) -> (PagingStatus, u64) {
        let held = match self.admit(back, back.length.into()) {
            Ok(held) => held,
            Err(refused) => return refused,
        };
        let (offset, len) = (back.offset as usize, back.length as usize);
        let is_last = (offset + len) as u64 == self.size();
        let is_whole = offset.is_multiple_of(PAGE) && (len.is_multiple_of(PAGE) || is_last);
        if !is_whole || back.length > WriteBack::DISCARD_MAX {
            return (PagingStatus::Malformed, held.epoch());
        }
        if !mutant("paging.discarded-bytes-stay") {
            self.give_back(offset, len.next_multiple_of(PAGE).min(self.memory().len() - offset));
        }
        if !self.is_settled(offset, len) {
            return (PagingStatus::Busy, held.epoch());
        }
        (PagingStatus::Done, held.epoch())
    }

    /// Begins the next epoch for a process that may write: nothing of an earlier one is written from now on.
    fn fence(&self, fence: &Fence) -> (PagingStatus, u64) {
        match may_write(self, fence.generation, &fence.key) {
            PagingStatus::Done if mutant("paging.fence-skipped") => (PagingStatus::Done, self.epoch().now()),
            PagingStatus::Done => match self.begin_epoch() {
                Ok(epoch) => (PagingStatus::Done, epoch),
                Err(status) => (status, 0),
            },
            status => (status, 0),
        }
    }
}

/// The counts that a frame about far memory adds.
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
        Some((PagingRequest::WriteBack(back), data)) => {
            let home = find(back.region);
            let (status, epoch) =
                home.map_or((PagingStatus::NotOpen, 0), |home| home.write_back(&back, data));
            match status {
                PagingStatus::Done => (returned.done, returned.bytes) = (1, data.len() as u64),
                PagingStatus::StaleEpoch => returned.stale = 1,
                _ => {}
            }
            Some(PagingReply::Written { status, epoch })
        }
        Some((PagingRequest::Discard(back), _)) => {
            let home = find(back.region);
            let (status, epoch) = home.map_or((PagingStatus::NotOpen, 0), |home| home.discard(&back));
            returned.stale = u64::from(status == PagingStatus::StaleEpoch);
            Some(PagingReply::Written { status, epoch })
        }
        Some((PagingRequest::Fence(fence), _)) => {
            let home = find(fence.region);
            let (status, epoch) = home.map_or((PagingStatus::NotOpen, 0), |home| home.fence(&fence));
            Some(PagingReply::Fenced { status, epoch })
        }
        // A peer with a link to the server reads one-sidedly.
        Some((PagingRequest::Attach(_), _)) => {
            let detail = "this is a memory server; attach regions at an agent";
            Some(PagingReply::refused(AttachRefusal::BadRequest, detail))
        }
        Some((PagingRequest::Fetch(_), _)) => Some(PagingReply::not_fetched(PagingStatus::NotOpen)),
        Some((PagingRequest::Detach(_), _)) => None,
        None => PagingReply::to_malformed(frame.head.kind),
    };
    if let Some(reply) = reply {
        let head = FrameHead::new(reply.kind()).with_tag(frame.head.tag);
        outbox.push_copy(link, head, reply.encode().as_bytes());
    }
    returned
}

fn may_write(home: &(impl Home + ?Sized), generation: Generation, key: &RegionKey) -> PagingStatus {
    match home.rights(generation, key) {
        None => PagingStatus::NotOpen,
        Some(rights) if rights.includes(Rights::WRITE) => PagingStatus::Done,
        Some(_) => PagingStatus::NoRight,
    }
}
