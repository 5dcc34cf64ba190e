//! One link to a memory server: what is read from it, and what is written back to it.

use std::sync::atomic::Ordering;

use outboard_contract::memory::Buffer;
use outboard_contract::{
    AccessError, FrameSendError, Link, LinkError, LinkId, OneSided, OpenRegion, Peer, RemoteMemory,
    Token as LinkToken,
};
use outboard_wire::paging::{PagingRequest, WriteBack};
use outboard_wire::{FrameHead, Grant, Incarnation, RegionKey, Rights, Time};

use super::cache::{
    BusyTime, Forwarding, Purpose, ReadId, ReadQueue, RegionIdentity, RegionNumber, Slab, WriteQueue,
};
use super::fetch::transfer;
use super::statics::Copying;
use super::worker::PagingWorker;

/// How many bytes of write-backs may wait for their way to one server.
pub const STAGE_LEN: usize = 4 << 20;
/// How many frames of write-backs a server may have that it has not acknowledged.
const WRITES_MAX: usize = 64;
/// Where reading is copying, no more than this is read in one turn, so that answers are not held up.
const MAPPED_MAX: u64 = 128 << 10;
/// Where it is not, no more than so many plans are turned into reads at once.
const PLANS_MAX: usize = 8;

/// The purpose of a one-sided operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Bytes for the cache or for a bounce.
    Read { id: ReadId, len: u32 },
    /// Bytes for a static copy, by the number of the reading.
    Static { number: u32 },
    /// A region to open, by the number of the opening.
    Open { number: u32 },
}

const READ: u64 = 0;
const STATIC: u64 = 1 << 62;
const OPEN: u64 = 2 << 62;
const KINDS: u64 = 3 << 62;
const LEN_SHIFT: u32 = 32;

impl Token {
    pub(super) fn encode(self) -> LinkToken {
        LinkToken(match self {
            // No access of a link is longer than a gigabyte.
            Self::Read { id, len } => READ | (u64::from(len) & 0x3fff_ffff) << LEN_SHIFT | u64::from(id.0),
            Self::Static { number } => STATIC | u64::from(number),
            Self::Open { number } => OPEN | u64::from(number),
        })
    }

    pub(super) fn decode(token: LinkToken) -> Self {
        let number = token.0 as u32;
        match token.0 & KINDS {
            STATIC => Self::Static { number },
            OPEN => Self::Open { number },
            _ => Self::Read { id: ReadId(number), len: (token.0 >> LEN_SHIFT) as u32 & 0x3fff_ffff },
        }
    }
}

/// A region that is being opened at the server.
pub(super) struct Opening {
    pub(super) name: RegionIdentity,
    pub(super) grant: Grant,
    pub(super) rights: Rights,
    /// The attachment that waits for it, by the number of the request; none if a lost link is being made up for.
    pub(super) request: Option<u32>,
    pub(super) is_asked: bool,
}

/// A region that is open at the server.
#[derive(Clone, Copy)]
pub(super) struct Opened {
    pub(super) name: RegionIdentity,
    pub(super) key: RegionKey,
    pub(super) rights: Rights,
    pub(super) region: OpenRegion,
    pub(super) number: Option<RegionNumber>,
}

/// One link to a memory server.
pub(super) struct ServerSide {
    pub(super) link: LinkId,
    pub(super) peer: Peer,
    pub(super) lane: ReadQueue,
    pub(super) busy: BusyTime,
    pub(super) writes: WriteQueue,
    pub(super) stage: Buffer,
    pub(super) openings: Slab<Opening>,
    pub(super) opened: Vec<Opened>,
    pub(super) closing: Vec<OpenRegion>,
    /// Readings of static copies.
    pub(super) copying: Slab<Copying>,
}

impl ServerSide {
    /// # Panics
    /// If `stage` has fewer than [`STAGE_LEN`] bytes.
    pub(super) fn new(link: LinkId, peer: Peer, forwarding: Forwarding, stage: Buffer) -> Self {
        assert!(stage.len() >= STAGE_LEN, "a stage of {} bytes", stage.len());
        Self {
            link,
            peer,
            lane: ReadQueue::new(forwarding),
            busy: BusyTime::default(),
            writes: WriteQueue::new(STAGE_LEN as u64),
            stage,
            openings: Slab::default(),
            opened: Vec::new(),
            closing: Vec::new(),
            copying: Slab::default(),
        }
    }

    /// Which life of the server this is.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.peer.incarnation()
    }

    /// The open region to read by.
    pub(super) fn readable(&self, region: RegionNumber) -> Option<OpenRegion> {
        self.opened.iter().find(|opened| opened.number == Some(region)).map(|opened| opened.region)
    }

    /// A region that was opened with this key and at least these rights.
    pub(super) fn find(&self, name: &RegionIdentity, key: &RegionKey, rights: Rights) -> Option<usize> {
        self.opened.iter().position(|opened| {
            opened.name == *name && opened.key.matches(key) && opened.rights.includes(rights)
        })
    }
}

impl PagingWorker {
    /// Asks a server for what is due, and sends it what it should have.
    pub(super) fn send_to_server<L: Link + RemoteMemory>(
        &mut self,
        index: usize,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let is_mapped = link.capabilities().one_sided == OneSided::Mapped;
        let mut moved = self.open_regions(index, link)?;
        let side = &mut self.servers[index];
        side.lane.open_batch(side.writes.waiting());
        moved |= self.begin_reads(index, link, now, is_mapped)?;
        moved |= self.send_writes(index, link)?;
        // No thread waits for the rest: where it would hold up answers, it has another turn.
        if self.servers[index].lane.is_idle() && !(is_mapped && moved) {
            moved |= self.plan_reads(index, is_mapped) && self.begin_reads(index, link, now, is_mapped)?;
            moved |= self.load_copies(index, link, is_mapped)?;
        }
        if is_mapped && moved {
            let id = self.servers[index].link;
            link.completions(|completion| self.on_completion(id, &completion, now));
        }
        Ok(moved)
    }

    fn open_regions<L: RemoteMemory>(&mut self, index: usize, link: &mut L) -> Result<bool, LinkError> {
        let side = &mut self.servers[index];
        let mut moved = !side.closing.is_empty();
        side.closing.drain(..).for_each(|region| link.close_region(region));
        let waiting: Vec<u32> = side.openings.iter().filter(|(_, it)| !it.is_asked).map(|it| it.0).collect();
        for number in waiting {
            let Some(opening) = side.openings.get_mut(number) else { continue };
            match link.open(&opening.grant, opening.rights, Token::Open { number }.encode()) {
                Ok(()) => (opening.is_asked, moved) = (true, true),
                Err(AccessError::Lost(error)) => return Err(error),
                Err(_) => break,
            }
        }
        Ok(moved)
    }

    fn begin_reads<L: Link + RemoteMemory>(
        &mut self,
        index: usize,
        link: &mut L,
        now: Time,
        is_mapped: bool,
    ) -> Result<bool, LinkError> {
        let side = &mut self.servers[index];
        let len_max =
            (link.capabilities().max_access as u64).min(if is_mapped { MAPPED_MAX } else { u64::MAX });
        let (mut begun, mut moved) = (0, false);
        while !is_mapped || begun < MAPPED_MAX {
            let Some(read) = side.lane.next_read(len_max) else { break };
            let (transfer, over) = (read.transfer, &mut self.over);
            let mut refuse = |side: &mut ServerSide| {
                side.lane.refuse(&read, |purpose, is_done| over.push((purpose, is_done)));
            };
            let Some(region) = side.readable(transfer.region) else {
                refuse(side);
                continue;
            };
            let token = Token::Read { id: read.id, len: transfer.len as u32 }.encode();
            let (memory, len) = (self.shared.memory(), transfer.len as usize);
            let began = self.shared.time(now);
            match link.read(region, transfer.offset, memory, transfer.at as usize, len, token) {
                Ok(()) => {
                    side.busy.begin(began);
                    side.lane.read_begun(&read);
                    begun += transfer.len;
                    moved = true;
                }
                Err(AccessError::Full | AccessError::Busy) => break,
                Err(AccessError::Lost(error)) => return Err(error),
                Err(_) => refuse(side),
            }
        }
        if !self.over.is_empty() {
            self.end_transfers(None, now);
            moved = true;
        }
        Ok(moved)
    }

    /// Turns plans of the cache into transfers. Returns whether there are any.
    fn plan_reads(&mut self, index: usize, is_mapped: bool) -> bool {
        if !self.shared.has_plans.load(Ordering::Relaxed) {
            return false;
        }
        let most = if is_mapped { 1 } else { PLANS_MAX };
        let mut state = self.shared.state();
        for _ in 0..most {
            let side = &mut self.servers[index];
            let Some(order) = state.cache.next_ahead(|region| side.readable(region).is_some()) else { break };
            side.lane.push(transfer(&self.shared, &order), Purpose::Load(order.load));
        }
        self.shared.note_plans(&state);
        drop(state);
        let side = &mut self.servers[index];
        side.lane.open_batch(side.writes.waiting());
        !side.lane.is_idle()
    }

    fn send_writes<L: Link>(&mut self, index: usize, link: &mut L) -> Result<bool, LinkError> {
        let side = &mut self.servers[index];
        let len_max = link.capabilities().max_payload.saturating_sub(WriteBack::FIXED_LEN) as u32;
        let mut moved = false;
        while side.lane.may_begin()
            && side.writes.under_way() < WRITES_MAX
            && let Some(frame) = side.writes.next_frame(len_max)
        {
            let item = frame.first;
            let request = PagingRequest::WriteBack(WriteBack {
                region: item.region,
                generation: item.generation,
                key: item.key,
                epoch: item.epoch,
                offset: item.offset,
                length: frame.len,
            });
            let head = FrameHead::new(request.kind()).with_tag(side.writes.next_number());
            let len = WriteBack::FIXED_LEN + frame.len as usize;
            match link.reserve(head, len) {
                Ok(mut window) => {
                    window.write(0, request.encode().as_bytes());
                    let mut at = WriteBack::FIXED_LEN;
                    for (from, len) in side.writes.parts() {
                        window.write_window(at, side.stage.window().part(from as usize, len as usize));
                        at += len as usize;
                    }
                    self.shared.counts.write_back_frames.add(1);
                }
                Err(FrameSendError::Lost(error)) => return Err(error),
                // A single write-back that is too long for this link was refused when it came.
                Err(FrameSendError::Full | FrameSendError::TooLong { .. }) => break,
            }
            link.commit(len);
            side.writes.frame_sent();
            side.lane.begun(1);
            moved = true;
        }
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_say_what_they_are_for() {
        let tokens = [
            Token::Read { id: ReadId(u32::MAX), len: 1 << 29 },
            Token::Read { id: ReadId(0), len: 0 },
            Token::Static { number: u32::MAX },
            Token::Open { number: 7 },
        ];
        for token in tokens {
            assert_eq!(Token::decode(token.encode()), token);
        }
    }
}
