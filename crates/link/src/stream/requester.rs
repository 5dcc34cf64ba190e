//! The peer's memory at this side's request.

use std::collections::VecDeque;

use outboard_wire::Rights;
use outboard_wire::access::{Reply, Slot, Status};

use crate::memory::{Buffer, WindowMut};
use crate::remote::Asked;
use crate::{AccessError, Completion, LinkError, OpenRegion, Outcome, Token, Violation};

/// What is open at the peer, what is under way and what has ended.
pub(super) struct Requester {
    operations: Vec<Operation>,
    free: Vec<u16>,
    ended: VecDeque<Completion>,
    /// The tags of reads under way, in the order in which the owner answers those that are in order.
    reads: VecDeque<u32>,
    regions: Vec<RegionEntry>,
    free_regions: Vec<u32>,
    /// Slots to be given back, which found no room in the outgoing queue.
    pub(super) closing: VecDeque<Slot>,
}

/// A place for an operation. Its number and its serial make the tag on the wire.
struct Operation {
    serial: u16,
    pending: Option<Pending>,
}

/// An operation under way.
pub(super) struct Pending {
    pub(super) token: Token,
    pub(super) asked: Asked,
    pub(super) wanted: Wanted,
}

/// What an operation is to bring.
pub(super) enum Wanted {
    /// A slot.
    Region,
    /// Bytes, into `buffer` at `offset`.
    Bytes { buffer: Buffer, offset: usize },
    /// That the bytes are there.
    Write,
    /// The word before.
    Word,
}

impl Pending {
    /// How many bytes of data belong to `reply`; `None` if it is no answer to this at all.
    fn expects(&self, reply: &Reply) -> Option<u64> {
        match (reply, &self.wanted) {
            (Reply::Opened { .. }, Wanted::Region) => Some(0),
            (Reply::Done { status: Status::Done, .. }, Wanted::Bytes { .. }) => Some(self.asked.len),
            (Reply::Opened { .. }, _) | (_, Wanted::Region) => None,
            (Reply::Done { .. }, _) => Some(0),
        }
    }
}

/// The read that will be answered next, unless it is refused or a later one is.
pub(super) struct NextRead<'a> {
    pub(super) tag: u32,
    pub(super) len: usize,
    /// Whether other processes may write to where the bytes go.
    pub(super) is_shared: bool,
    buffer: &'a Buffer,
    offset: usize,
}

impl<'a> NextRead<'a> {
    /// Where its bytes go, from the one at `from` on.
    #[inline]
    pub(super) fn place(&self, from: usize) -> WindowMut<'a> {
        self.buffer.window_mut().part(self.offset + from, self.len - from)
    }
}

struct RegionEntry {
    serial: u64,
    open: Option<Region>,
}

/// A region that is open at the peer.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub(super) slot: Slot,
    pub(super) size: u64,
    pub(super) rights: Rights,
}

impl Requester {
    pub(super) fn new(operations_max: usize) -> Self {
        let idle = || Operation { serial: 0, pending: None };
        Self {
            operations: std::iter::repeat_with(idle).take(operations_max).collect(),
            free: (0..operations_max as u16).rev().collect(),
            ended: VecDeque::with_capacity(operations_max),
            reads: VecDeque::with_capacity(operations_max),
            regions: Vec::new(),
            free_regions: Vec::new(),
            closing: VecDeque::new(),
        }
    }

    /// Whether operations are under way.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        self.free.len() < self.operations.len()
    }

    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Whether another operation can be begun. Those that have ended and were not collected count too.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.free.len() > self.ended.len()
    }

    /// Notes an operation and returns its tag. There must be room.
    pub(super) fn begin(&mut self, pending: Pending) -> Option<u32> {
        let index = self.free.pop()?;
        let operation = &mut self.operations[usize::from(index)];
        operation.serial = operation.serial.wrapping_add(1);
        let tag = u32::from(operation.serial) << 16 | u32::from(index);
        if let Wanted::Bytes { .. } = pending.wanted {
            self.reads.push_back(tag);
        }
        operation.pending = Some(pending);
        Some(tag)
    }

    /// The read that the next reply with data belongs to, if any is under way.
    #[inline]
    pub(super) fn next_read(&self) -> Option<NextRead<'_>> {
        let tag = *self.reads.front()?;
        let pending = self.operations.get((tag & 0xffff) as usize)?.pending.as_ref()?;
        let Wanted::Bytes { buffer, offset } = &pending.wanted else { return None };
        let (len, is_shared) = (pending.asked.len as usize, buffer.is_shared());
        Some(NextRead { tag, len, is_shared, buffer, offset: *offset })
    }

    /// Ends the next read, whose bytes are in place.
    pub(super) fn end_read(&mut self) {
        let Some(tag) = self.reads.pop_front() else { return };
        let operation = self.operations.get_mut((tag & 0xffff) as usize);
        if let Some(Pending { token, .. }) = operation.and_then(|operation| operation.pending.take()) {
            self.free.push(tag as u16);
            self.ended.push_back(Completion { token, result: Ok(Outcome::Read) });
        }
    }

    /// Ends the operation that a reply belongs to. A reply that does not fit leaves everything as it was.
    pub(super) fn end(&mut self, tag: u32, reply: &Reply, data: &[u8]) -> Result<(), Violation> {
        let unknown = Violation::UnknownReply { tag };
        let operation = self.operations.get_mut((tag & 0xffff) as usize).ok_or(unknown)?;
        let pending = operation.pending.as_ref().filter(|_| u32::from(operation.serial) == tag >> 16);
        let expected = pending.and_then(|pending| pending.expects(reply)).ok_or(unknown)?;
        if data.len() as u64 != expected {
            return Err(Violation::Oversize { len: data.len() as u64, available: expected });
        }
        if let (Reply::Opened { status: Status::Done, size, .. }, Some(pending)) = (reply, pending)
            && *size < pending.asked.size
        {
            return Err(Violation::Segment("smaller than its grant says"));
        }
        let Pending { token, asked, wanted } = operation.pending.take().ok_or(unknown)?;
        self.free.push(tag as u16);
        let result = match (*reply, wanted) {
            (Reply::Opened { status, slot, .. }, _) => {
                let opened = Region { slot, size: asked.size, rights: asked.needed };
                asked.verdict(status).map(|()| Outcome::Opened(self.insert(opened)))
            }
            (Reply::Done { status, .. }, Wanted::Bytes { buffer, offset }) => {
                // Almost always the first.
                if let Some(at) = self.reads.iter().position(|read| *read == tag) {
                    self.reads.remove(at);
                }
                asked.verdict(status).map(|()| {
                    buffer.window_mut().write(offset, data);
                    Outcome::Read
                })
            }
            (Reply::Done { status, old }, Wanted::Word) => asked.verdict(status).map(|()| Outcome::Old(old)),
            (Reply::Done { status, .. }, _) => asked.verdict(status).map(|()| Outcome::Written),
        };
        self.ended.push_back(Completion { token, result });
        Ok(())
    }

    /// Ends everything under way because the link is lost.
    pub(super) fn abandon(&mut self, lost: &LinkError) {
        for (index, operation) in self.operations.iter_mut().enumerate() {
            if let Some(Pending { token, .. }) = operation.pending.take() {
                self.free.push(index as u16);
                self.ended.push_back(Completion { token, result: Err(AccessError::Lost(lost.clone())) });
            }
        }
        self.reads.clear();
        self.closing.clear();
    }

    /// Hands out what has ended.
    pub(super) fn collect(&mut self, mut sink: impl FnMut(Completion)) -> usize {
        let count = self.ended.len();
        self.ended.drain(..).for_each(&mut sink);
        count
    }

    fn insert(&mut self, region: Region) -> OpenRegion {
        let index = self.free_regions.pop().unwrap_or_else(|| {
            self.regions.push(RegionEntry { serial: 0, open: None });
            (self.regions.len() - 1) as u32
        });
        let entry = &mut self.regions[index as usize];
        *entry = RegionEntry { serial: OpenRegion::next_serial(), open: Some(region) };
        OpenRegion { index, serial: entry.serial }
    }

    /// The region, if it is open.
    #[inline]
    pub(super) fn region(&self, region: OpenRegion) -> Result<Region, AccessError> {
        let entry = self.regions.get(region.index as usize).filter(|entry| entry.serial == region.serial);
        entry.and_then(|entry| entry.open).ok_or(AccessError::NotOpen)
    }

    /// Closes a region on this side and returns the slot to give back.
    pub(super) fn close(&mut self, region: OpenRegion) -> Option<Slot> {
        let slot = self.region(region).ok()?.slot;
        let entry = &mut self.regions[region.index as usize];
        entry.open = None;
        self.free_regions.push(region.index);
        Some(slot)
    }
}
