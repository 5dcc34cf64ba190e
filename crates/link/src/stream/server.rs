//! This side's memory at the peer's request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, FIXED_LEN_MAX, RegionSpan, Slot};
use outboard_wire::{DecodeError, Rights, Time, Versions};

use super::bytes::ByteStream;
use super::config::OPERATIONS_MAX;
use super::exit::Exit;
use super::outbox::Outbox;
use super::reach::{Handle, Lent};
use crate::asked::{ATOMIC_RIGHTS, Asked};
use crate::export::Export;
use crate::memory::Window;
use crate::{Exports, Violation};

/// The regions that the peer has open, and the reads that wait for room in the outgoing queue.
pub(super) struct Server {
    exports: Arc<Exports>,
    /// The version of the exports that the slots were last checked against.
    version: u64,
    slots: Vec<SlotEntry>,
    free: Vec<u16>,
    slots_max: usize,
    queue: VecDeque<WaitingRead>,
    /// Memory that was withdrawn and is still lent, because the peer may be reaching for it.
    withdrawn: Vec<Withdrawn>,
    /// Counts the link's turns, so that the second part of a torn read comes in a later one.
    turn: u64,
    now: Time,
    max_access: usize,
    /// Which version of the protocol the peer speaks on this link.
    peer_version: u16,
}

struct SlotEntry {
    /// Tells this opening from earlier ones in the same place.
    serial: u16,
    lease: Option<Lease>,
}

struct Lease {
    /// The registration by which the peer reaches it past the frames. Before the memory, which must outlive it.
    lent: Option<Lent>,
    export: Arc<Export>,
    rights: Rights,
}

/// A region that is no longer exported and still lent.
struct Withdrawn {
    slot: Slot,
    _lent: Lent,
    since: Time,
    is_told: bool,
}

/// How long a peer has to stop reaching for what was withdrawn.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// A read that was found good and waits for room.
struct WaitingRead {
    tag: u32,
    export: Arc<Export>,
    offset: usize,
    len: usize,
    torn: Option<Torn>,
}

/// The first part of a read that a test tears.
struct Torn {
    bytes: Vec<u8>,
    turn: u64,
}

const fn slot(index: u16, serial: u16) -> Slot {
    Slot((serial as u32) << 16 | index as u32)
}

impl Server {
    pub(super) fn new(exports: Arc<Exports>, slots_max: usize, max_access: usize) -> Self {
        Self {
            version: exports.version(),
            exports,
            slots: Vec::new(),
            free: Vec::new(),
            slots_max,
            queue: VecDeque::with_capacity(OPERATIONS_MAX),
            withdrawn: Vec::new(),
            turn: 0,
            now: Time::ZERO,
            max_access,
            peer_version: Versions::NEWEST,
        }
    }

    /// Answers as a peer of this version understands it.
    pub(super) fn speak(&mut self, version: u16) {
        self.peer_version = version;
    }

    /// Does what the peer asks and puts the answer into the outgoing queue, or into the list of waiting reads. The last
    /// request that is here may be answered past the queue; answers that others follow leave together, in fewer calls.
    pub(super) fn serve(
        &mut self,
        exit: &mut Exit<'_, impl ByteStream>,
        (tag, is_last): (u32, bool),
        (request, data): (AccessRequest, &[u8]),
    ) -> Result<(), Violation> {
        self.renew();
        let reply = match request {
            AccessRequest::Open { .. } => return self.open(exit, tag, &request),
            AccessRequest::Close { slot } => {
                self.close(slot);
                return Ok(());
            }
            // For the holder of a region, not for its owner.
            AccessRequest::Withdrawn { slot } => {
                return Err(
                    DecodeError::BadValue { what: "slot of a withdrawal", value: slot.0.into() }.into()
                );
            }
            AccessRequest::Read(span) => match self.find(&span, Rights::READ, false) {
                Ok(_) if span.len as usize > self.max_access => return Err(self.oversize(&span)),
                Ok(_) => return self.read(exit, (tag, is_last), &span),
                Err(status) => AccessReply::Done { status, old: 0 },
            },
            AccessRequest::Write(span) => self.done(&span, false, |export, at| {
                export.memory.window_mut(at, data.len()).write(0, data);
                0
            }),
            AccessRequest::CompareSwap { span, expected, desired } => self.done(&span, true, |export, at| {
                let swapped = export.memory.word(at).compare_exchange(expected, desired, SeqCst, SeqCst);
                swapped.unwrap_or_else(|old| old)
            }),
            AccessRequest::FetchAdd { span, addend } => {
                self.done(&span, true, |export, at| export.memory.word(at).fetch_add(addend, SeqCst))
            }
        };
        answer(exit.outbox, tag, &reply)
    }

    fn oversize(&self, span: &RegionSpan) -> Violation {
        Violation::Oversize { len: span.len.into(), available: self.max_access as u64 }
    }

    /// Forgets the slots of regions that are exported no longer.
    fn renew(&mut self) {
        let version = self.exports.version();
        if version == self.version {
            return;
        }
        self.version = version;
        for index in 0..self.slots.len() {
            let entry = &mut self.slots[index];
            let Some(lease) = &mut entry.lease else { continue };
            if self.exports.still_has(&lease.export) {
                continue;
            }
            if let Some(lent) = lease.lent.take() {
                let slot = slot(index as u16, entry.serial);
                self.withdrawn.push(Withdrawn { slot, _lent: lent, since: self.now, is_told: false });
            }
            self.vacate(index);
        }
    }

    fn vacate(&mut self, index: usize) {
        self.slots[index].lease = None;
        self.slots[index].serial = self.slots[index].serial.wrapping_add(1);
        self.free.push(index as u16);
    }

    /// Opens a region, lends it if that can be done, and answers.
    fn open(
        &mut self,
        exit: &mut Exit<'_, impl ByteStream>,
        tag: u32,
        request: &AccessRequest,
    ) -> Result<(), Violation> {
        let (index, mut lease) = match self.find_place(request) {
            Ok(found) => found,
            Err(status) => {
                return answer(exit.outbox, tag, &AccessReply::Opened { status, slot: Slot(0), size: 0 });
            }
        };
        let entry = &mut self.slots[usize::from(index)];
        let size = lease.export.memory.len() as u64;
        let reply = AccessReply::Opened { status: AccessStatus::Done, slot: slot(index, entry.serial), size };
        if exit.outbox.has_room(AccessReply::FIXED_LEN + Handle::LEN) {
            lease.lent = exit.stream.lend(&lease.export.memory, lease.rights);
        }
        let handle = lease.lent.as_ref().map(|lent| lent.handle.encode());
        entry.lease = Some(lease);
        match handle {
            Some(handle) => {
                exit.outbox.reply(tag, &reply, Window::from(&handle[..]));
                Ok(())
            }
            None => answer(exit.outbox, tag, &reply),
        }
    }

    /// Checks an opening and finds a place for it.
    fn find_place(&mut self, request: &AccessRequest) -> Result<(u16, Lease), AccessStatus> {
        let AccessRequest::Open { region, generation, rights, ref key } = *request else {
            return Err(AccessStatus::NotOpen);
        };
        let export = self.exports.open(region, generation, key, rights)?;
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.slots.len() < self.slots_max => {
                self.slots.push(SlotEntry { serial: 0, lease: None });
                (self.slots.len() - 1) as u16
            }
            None => return Err(AccessStatus::Busy),
        };
        Ok((index, Lease { lent: None, export, rights }))
    }

    /// A slot that is not open may be one whose region was withdrawn meanwhile: no matter.
    fn close(&mut self, closed: Slot) {
        self.withdrawn.retain(|withdrawn| withdrawn.slot != closed);
        let index = (closed.0 & 0xffff) as usize;
        let is_open = self.slots.get(index).is_some_and(|entry| entry.lease.is_some());
        if is_open && slot(index as u16, self.slots[index].serial) == closed {
            self.vacate(index);
        }
    }

    /// The region that an access concerns, if all is right with it.
    fn find(&self, span: &RegionSpan, needed: Rights, is_atomic: bool) -> Result<&Lease, AccessStatus> {
        let index = (span.slot.0 & 0xffff) as usize;
        let entry = self.slots.get(index).ok_or(AccessStatus::NotOpen)?;
        let lease = entry.lease.as_ref().ok_or(AccessStatus::NotOpen)?;
        if slot(index as u16, entry.serial) != span.slot {
            return Err(AccessStatus::NotOpen);
        }
        let size = lease.export.memory.len() as u64;
        let asked = Asked { offset: span.offset, len: span.len.into(), size, needed };
        match asked.judge(lease.rights, is_atomic) {
            AccessStatus::Done => Ok(lease),
            status => Err(status),
        }
    }

    /// Does a write or an atomic.
    fn done(
        &self,
        span: &RegionSpan,
        is_atomic: bool,
        access: impl FnOnce(&Export, usize) -> u64,
    ) -> AccessReply {
        let needed = if is_atomic { ATOMIC_RIGHTS } else { Rights::WRITE };
        match self.find(span, needed, is_atomic) {
            Ok(lease) if !lease.export.memory.may_be_written(span.offset as usize, span.len as usize) => {
                AccessReply::Done { status: AccessStatus::NoMemory.for_version(self.peer_version), old: 0 }
            }
            Ok(lease) => AccessReply::Done {
                status: AccessStatus::Done,
                old: access(&lease.export, span.offset as usize),
            },
            Err(status) => AccessReply::Done { status, old: 0 },
        }
    }

    /// Answers a read that is in order: at once if there is room and none waits before it.
    fn read(
        &mut self,
        exit: &mut Exit<'_, impl ByteStream>,
        (tag, is_last): (u32, bool),
        span: &RegionSpan,
    ) -> Result<(), Violation> {
        let (offset, len) = (span.offset as usize, span.len as usize);
        // Word borders strictly inside the span.
        let first = (offset + 1).next_multiple_of(8);
        let borders = (offset + len).saturating_sub(first).div_ceil(8);
        let cut = if borders > 0 { exit.stream.tear(borders) } else { None };
        let Ok(Lease { export, .. }) = self.find(span, Rights::READ, false) else { return Ok(()) };
        if self.queue.is_empty() && cut.is_none() && exit.outbox.has_room(AccessReply::FIXED_LEN + len) {
            let data = export.memory.window(offset, len);
            if !is_last || !export.memory.is_quiet() || !exit.reply_straight(tag, &DONE, data) {
                exit.outbox.reply(tag, &DONE, data);
            }
            return Ok(());
        }
        if self.queue.len() >= OPERATIONS_MAX {
            return Err(Violation::TooManyOperations { max: OPERATIONS_MAX });
        }
        let torn = cut.map(|border| {
            let part = first + 8 * (border.clamp(1, borders) - 1) - offset;
            Torn { bytes: export.memory.window(offset, part).to_vec(), turn: self.turn }
        });
        self.queue.push_back(WaitingRead { tag, export: Arc::clone(export), offset, len, torn });
        Ok(())
    }

    /// A new turn of the link begins.
    #[inline]
    pub(super) fn begin_turn(&mut self, now: Time) {
        self.turn += 1;
        self.now = now;
        // A withdrawn region must not be reached any more, whether a peer asks for it or not.
        self.renew();
    }

    /// Tells the peer what it must no longer reach for, and takes that back from one that does not listen.
    pub(super) fn withdraw(&mut self, outbox: &mut Outbox) {
        let now = self.now;
        self.withdrawn.retain(|withdrawn| now.since(withdrawn.since) < WITHDRAWAL);
        for withdrawn in self.withdrawn.iter_mut().filter(|withdrawn| !withdrawn.is_told) {
            if !outbox.has_room(FIXED_LEN_MAX) {
                break;
            }
            outbox.request(0, &AccessRequest::Withdrawn { slot: withdrawn.slot }, Window::from(&[][..]));
            withdrawn.is_told = true;
        }
    }

    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether the first waiting read is a torn one, whose time comes by itself.
    pub(super) fn has_torn(&self) -> bool {
        self.queue.front().is_some_and(|read| read.torn.is_some())
    }

    /// How long the payload of the first waiting reply is, if it may be sent in this turn.
    pub(super) fn next_reply_len(&self) -> Option<usize> {
        let read = self.queue.front()?;
        let is_ready = read.torn.as_ref().is_none_or(|torn| torn.turn < self.turn);
        is_ready.then_some(AccessReply::FIXED_LEN + read.len)
    }

    /// Answers the first waiting read. There must be room for it.
    pub(super) fn serve_next(&mut self, outbox: &mut Outbox) -> Result<(), Violation> {
        let Some(read) = self.queue.pop_front() else { return Ok(()) };
        if !self.exports.still_has(&read.export) {
            return answer(outbox, read.tag, &AccessReply::Done { status: AccessStatus::NotOpen, old: 0 });
        }
        let memory = &read.export.memory;
        match read.torn {
            None => outbox.reply(read.tag, &DONE, memory.window(read.offset, read.len)),
            Some(Torn { mut bytes, .. }) => {
                let part = bytes.len();
                bytes.extend(memory.window(read.offset + part, read.len - part).to_vec());
                outbox.reply(read.tag, &DONE, Window::from(&bytes[..]));
            }
        }
        Ok(())
    }
}

const DONE: AccessReply = AccessReply::Done { status: AccessStatus::Done, old: 0 };

/// Sends a reply without data, for which there is always room if the peer keeps to the limit.
fn answer(outbox: &mut Outbox, tag: u32, reply: &AccessReply) -> Result<(), Violation> {
    if outbox.short_reply(tag, reply) {
        Ok(())
    } else {
        Err(Violation::TooManyOperations { max: OPERATIONS_MAX })
    }
}
