//! The peer's memory at this side's request.

use std::collections::VecDeque;

use outboard_wire::Rights;
use outboard_wire::access::{AccessReply, AccessStatus, Slot};

use super::reach::{FarAccess, Handle};
use crate::asked::Asked;
use crate::memory::{Buffer, WindowMut};
use crate::{AccessError, AccessOutcome, Completion, LinkError, OpenRegion, Token, Violation};

/// The regions that are open at the peer, the operations under way and those that have ended.
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
    /// Accesses under way past the frames, by their numbers.
    far: Vec<Option<FarAccess>>,
    /// Those that failed there, and have to be asked for by frames.
    pub(super) unreached: VecDeque<u16>,
    /// Whether an opening may bring a handle.
    reaches: bool,
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

/// The result that an operation is to bring.
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
    /// How many bytes of data belong to `reply`; `None` if it is no answer to this at all. An opening may bring a handle.
    fn expects(&self, reply: &AccessReply, may_bring: Option<usize>) -> Option<u64> {
        match (reply, &self.wanted) {
            (AccessReply::Opened { status: AccessStatus::Done, .. }, Wanted::Region) => {
                Some(may_bring.unwrap_or(0) as u64)
            }
            (AccessReply::Opened { .. }, Wanted::Region) => Some(0),
            (AccessReply::Done { status: AccessStatus::Done, .. }, Wanted::Bytes { .. }) => {
                Some(self.asked.len)
            }
            (AccessReply::Opened { .. }, _) | (_, Wanted::Region) => None,
            (AccessReply::Done { .. }, _) => Some(0),
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
    /// How to reach it past the frames, if that can be done.
    pub(super) handle: Option<Handle>,
}

impl Requester {
    pub(super) fn new(operations_max: usize, reaches: bool) -> Self {
        let idle = || Operation { serial: 0, pending: None };
        Self {
            operations: std::iter::repeat_with(idle).take(operations_max).collect(),
            free: (0..operations_max as u16).rev().collect(),
            ended: VecDeque::with_capacity(operations_max),
            reads: VecDeque::with_capacity(operations_max),
            regions: Vec::new(),
            free_regions: Vec::new(),
            closing: VecDeque::new(),
            far: std::iter::repeat_with(|| None).take(if reaches { operations_max } else { 0 }).collect(),
            unreached: VecDeque::new(),
            reaches,
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
        let is_read = matches!(pending.wanted, Wanted::Bytes { .. });
        let tag = self.insert_operation(pending)?;
        if is_read {
            self.reads.push_back(tag);
        }
        Some(tag)
    }

    fn insert_operation(&mut self, pending: Pending) -> Option<u32> {
        let index = self.free.pop()?;
        let operation = &mut self.operations[usize::from(index)];
        operation.serial = operation.serial.wrapping_add(1);
        let tag = u32::from(operation.serial) << 16 | u32::from(index);
        operation.pending = Some(pending);
        Some(tag)
    }

    /// The number that the next operation will have, if it can be begun.
    pub(super) fn next_number(&self) -> Option<u16> {
        self.free.last().copied().filter(|_| self.has_room())
    }

    /// Notes an operation that goes past the frames. There must be room.
    pub(super) fn begin_far(&mut self, pending: Pending, access: impl FnOnce(u32) -> FarAccess) {
        if let Some(tag) = self.insert_operation(pending) {
            self.far[(tag & 0xffff) as usize] = Some(access(tag));
        }
    }

    /// The owner has withdrawn the region of this slot: it is reached for no longer, and its slot is given back.
    /// Returns false if nothing can be withdrawn here.
    pub(super) fn withdraw(&mut self, slot: Slot) -> bool {
        let open = self.regions.iter_mut().filter_map(|entry| entry.open.as_mut());
        for region in open.filter(|region| region.slot == slot) {
            region.handle = None;
        }
        if self.reaches && !self.closing.contains(&slot) {
            self.closing.push_back(slot);
        }
        self.reaches
    }

    /// Whether an access to this slot is under way past the frames.
    pub(super) fn is_reaching(&self, slot: Slot) -> bool {
        self.far.iter().flatten().any(|access| access.span.slot == slot)
    }

    /// How many bytes a write has that went past the frames.
    pub(super) fn far_write_len(&self, number: u16) -> usize {
        let access = self.far.get(usize::from(number)).and_then(Option::as_ref);
        access.map_or(0, |access| if access.is_write { access.span.len as usize } else { 0 })
    }

    /// Ends an access that was done past the frames.
    pub(super) fn end_far(&mut self, number: u16) {
        let index = usize::from(number);
        let Some(access) = self.far.get_mut(index).and_then(Option::take) else { return };
        if let Some(Pending { token, .. }) = self.operations[index].pending.take() {
            self.free.push(number);
            let outcome = if access.is_write { AccessOutcome::Written } else { AccessOutcome::Read };
            self.ended.push_back(Completion { token, result: Ok(outcome) });
        }
    }

    /// An access past the frames has failed: it is to be asked for by frames, and so are all that follow.
    pub(super) fn give_up_far(&mut self, number: u16) -> Option<FarAccess> {
        let access = self.far.get_mut(usize::from(number)).and_then(Option::take)?;
        let entry = self.regions.get_mut(access.region.index as usize);
        let region = entry.filter(|entry| entry.serial == access.region.serial);
        if let Some(open) = region.and_then(|entry| entry.open.as_mut()) {
            open.handle = None;
        }
        if !access.is_write {
            self.reads.push_back(access.tag);
        }
        Some(access)
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
            self.ended.push_back(Completion { token, result: Ok(AccessOutcome::Read) });
        }
    }

    /// Ends the operation that a reply belongs to. A reply that does not fit leaves everything as it was.
    pub(super) fn end(&mut self, tag: u32, reply: &AccessReply, data: &[u8]) -> Result<(), Violation> {
        let unknown = Violation::UnknownReply { tag };
        let operation = self.operations.get_mut((tag & 0xffff) as usize).ok_or(unknown)?;
        let pending = operation.pending.as_ref().filter(|_| u32::from(operation.serial) == tag >> 16);
        let may_bring = Some(Handle::LEN).filter(|len| self.reaches && data.len() == *len);
        let expected = pending.and_then(|pending| pending.expects(reply, may_bring)).ok_or(unknown)?;
        if data.len() as u64 != expected {
            return Err(Violation::Oversize { len: data.len() as u64, available: expected });
        }
        let Pending { token, asked, wanted } = operation.pending.take().ok_or(unknown)?;
        self.free.push(tag as u16);
        let result = match (*reply, wanted) {
            // The owner did not make up the grant: the link is as good as it was.
            (AccessReply::Opened { status: AccessStatus::Done, slot, size }, _) if size < asked.size => {
                self.closing.push_back(slot);
                Err(AccessError::OutOfBounds { offset: 0, len: asked.size, size })
            }
            (AccessReply::Opened { status, slot, .. }, _) => {
                let handle = Handle::decode(data);
                let opened = Region { slot, size: asked.size, rights: asked.needed, handle };
                asked.verdict(status).map(|()| AccessOutcome::Opened(self.insert(opened)))
            }
            (AccessReply::Done { status, .. }, Wanted::Bytes { buffer, offset }) => {
                // Almost always the first.
                if let Some(at) = self.reads.iter().position(|read| *read == tag) {
                    self.reads.remove(at);
                }
                asked.verdict(status).map(|()| {
                    buffer.window_mut().write(offset, data);
                    AccessOutcome::Read
                })
            }
            (AccessReply::Done { status, old }, Wanted::Word) => {
                asked.verdict(status).map(|()| AccessOutcome::Old(old))
            }
            (AccessReply::Done { status, .. }, _) => asked.verdict(status).map(|()| AccessOutcome::Written),
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
        self.unreached.clear();
        self.far.iter_mut().for_each(|access| *access = None);
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
