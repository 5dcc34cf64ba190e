//! An application: leases a region, fetches and writes back, and finds its way when the agent does not help.
//!
//! The `pager` scenario plays the product's pager; this is the least that obeys the protocol, in any order of requests.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Disposition, Frame, FrameSendError, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::read_reply;
use outboard_wire::control::{ControlAnswer, ControlFailure, Question, RegionName, RegionSharing};
use outboard_wire::paging::{
    AttachRefusal, AttachRegion, CacheMode, DetachRegion, FIXED_LEN_MAX, Fence, Fetch, PagingReply,
    PagingRequest, PagingStatus, Urgency, WriteBack,
};
use outboard_wire::{FrameHead, Grant, Incarnation, RegionDescriptor, Rights, Role, Time};

use super::books::Books;
use super::layout::{CHUNK_LOG2, GRAINS, SIZE, span, stamped};
use crate::Boot;

/// How many requests are under way at most.
const DEPTH: usize = 8;
/// How long an application waits before it asks again for what it was refused.
const PAUSE: Duration = Duration::from_millis(2);
/// How long an agent may say nothing before it is given up.
const PATIENCE: Duration = Duration::from_millis(40);
/// How an application can use a region: all of it, or to read.
const WRITER: Rights = Rights::READ.and(Rights::WRITE);

/// How far an application is with its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It has none, and asks for one later.
    Away,
    /// It has asked the server for one, under this tag.
    Asking(u32),
    /// The server has to be told to refuse what the agent may still send.
    Fencing { is_asked: bool },
    /// Write-backs that were not acknowledged are on their way to the server itself; then the region is attached at the agent.
    Saving,
    /// It is being attached at the agent, under this tag.
    Attaching(u32),
    /// It is used through the agent.
    Attached,
    /// It is given back to the server, if that was asked.
    Releasing { is_asked: bool },
}

/// A lease of a region.
struct Lease {
    descriptor: RegionDescriptor,
    rights: Rights,
    epoch: u64,
    session: usize,
    /// When it is given back.
    until: Time,
}

/// Bytes that the server may not have.
struct Unsaved {
    grains: Range<usize>,
    stamp: u64,
    /// Under which tag they were sent; none if they were not, or no answer will come.
    tag: Option<u32>,
}

/// A frame that waits for its link.
struct Outgoing {
    to: Role,
    head: FrameHead,
    payload: Vec<u8>,
}

/// Uses one region after the other.
pub(super) struct Application {
    process: Incarnation,
    regions: usize,
    books: Books,
    random: Rng,
    server: Option<LinkId>,
    agent: Option<LinkId>,
    stage: Stage,
    lease: Option<Lease>,
    /// The region that was asked for last.
    asked: (RegionName, Rights),
    /// Fetches under way through the agent, by tag.
    fetching: BTreeMap<u32, Range<usize>>,
    unsaved: Vec<Unsaved>,
    outgoing: Vec<Outgoing>,
    next_tag: u32,
    next_at: Time,
    /// When the agent was last heard of while something was expected of it.
    heard_at: Time,
    at: usize,
    until: Time,
}

impl Application {
    pub(super) fn new(boot: Boot, regions: usize, books: Books, until: Time) -> Self {
        Self {
            process: boot.incarnation,
            regions,
            books,
            random: boot.random,
            server: None,
            agent: None,
            stage: Stage::Away,
            lease: None,
            asked: (RegionName::new(""), WRITER),
            fetching: BTreeMap::new(),
            unsaved: Vec::new(),
            outgoing: Vec::new(),
            next_tag: 1,
            next_at: boot.now,
            heard_at: boot.now,
            at: 0,
            until,
        }
    }

    /// Whether it has nothing and wants nothing any more.
    pub(super) fn is_done(&self, now: Time) -> bool {
        now >= self.until && self.stage == Stage::Away
    }

    fn send(&mut self, to: Role, head: FrameHead, payload: Vec<u8>) -> u32 {
        self.next_tag += 1;
        let head = head.with_tag(self.next_tag);
        // Now and then a frame is sent twice: a process that has forgotten that it has asked asks again. A
        // write-back is not: the second could come home after what its sender has written meanwhile by itself.
        let is_repeatable = to == Role::Agent && payload.len() <= FIXED_LEN_MAX;
        if is_repeatable && self.random.u8(..24) == 0 {
            self.outgoing.push(Outgoing { to, head, payload: payload.clone() });
        }
        self.outgoing.push(Outgoing { to, head, payload });
        self.next_tag
    }

    fn request(&mut self, to: Role, request: &PagingRequest, data: &[u8]) -> u32 {
        let payload = [request.encode().as_bytes(), data].concat();
        self.send(to, FrameHead::new(request.kind()), payload)
    }

    fn question(&mut self, question: &Question) -> u32 {
        let mut payload = Vec::new();
        question.encode(&mut payload);
        self.send(Role::MemoryServer, FrameHead::new(question.kind()), payload)
    }

    /// Begins a fetch or a write-back through the agent, or has the region cached in another way.
    fn act(&mut self, now: Time) {
        let Some(lease) = &self.lease else { return };
        let (Grant { region, generation, .. }, writes) = (lease.descriptor.grant, lease.rights == WRITER);
        let session = lease.session;
        match self.random.u8(..100) {
            0 => return self.leave_agent(),
            // Only while nothing is under way: the product's pager never has a region cached otherwise meanwhile.
            1..4 if self.fetching.is_empty() && self.unsaved.is_empty() => {
                self.attach();
                return;
            }
            4 if writes && self.fetching.is_empty() && self.unsaved.is_empty() => return self.bypass_agent(),
            _ => {}
        }
        // Runs with jumps, so that something is read ahead.
        let jump = self.random.u8(..6) == 0;
        self.at = if jump { self.random.usize(..GRAINS) } else { (self.at + 1) % GRAINS };
        let grains = self.at..(self.at + self.random.usize(1..=4)).min(GRAINS);
        let meets = |other: &Range<usize>| other.start < grains.end && grains.start < other.end;
        if self.unsaved.iter().any(|unsaved| meets(&unsaved.grains)) {
            return;
        }
        if self.fetching.is_empty() && self.unsaved.is_empty() {
            self.heard_at = now;
        }
        if writes && self.random.u8(..3) == 0 {
            if self.fetching.values().any(meets) {
                return;
            }
            let stamp = self.books.write(session, grains.clone());
            let mut unsaved = Unsaved { grains, stamp, tag: None };
            unsaved.tag = self.write_back(Role::Agent, &unsaved);
            self.unsaved.push(unsaved);
        } else {
            let place = span(grains.clone());
            let (offset, length, urgency) = (place.start as u64, place.len() as u32, Urgency::Demand);
            let fetch = PagingRequest::Fetch(Fetch { region, generation, offset, length, urgency });
            let tag = self.request(Role::Agent, &fetch, &[]);
            self.fetching.insert(tag, grains);
        }
    }

    /// Detaches the region while nothing is under way, and writes to the server itself. A new epoch begins before it attaches
    /// again, as the product's pager sees to: an agent may still have the region by a request that came twice.
    fn bypass_agent(&mut self) {
        let Some(session) = self.lease.as_ref().map(|lease| lease.session) else { return };
        self.detach();
        let grain = self.random.usize(..GRAINS);
        let grains = grain..grain + 1;
        let stamp = self.books.write(session, grains.clone());
        self.unsaved.push(Unsaved { grains, stamp, tag: None });
        self.stage = Stage::Fencing { is_asked: false };
    }

    fn write_back(&mut self, to: Role, unsaved: &Unsaved) -> Option<u32> {
        let lease = self.lease.as_ref()?;
        let (Grant { region, generation, key, .. }, epoch) = (lease.descriptor.grant, lease.epoch);
        let data = stamped(unsaved.grains.clone(), unsaved.stamp);
        let (offset, length) = (span(unsaved.grains.clone()).start as u64, data.len() as u32);
        let back = WriteBack { region, generation, key, epoch, offset, length };
        Some(self.request(to, &PagingRequest::WriteBack(back), &data))
    }

    /// Attaches the region at the agent, once more or in another way.
    fn attach(&mut self) -> Option<u32> {
        let modes =
            [CacheMode::Off, CacheMode::Static, CacheMode::Static, CacheMode::Dynamic, CacheMode::Auto];
        let mode = modes[self.random.usize(..modes.len())];
        let Lease { descriptor, rights, epoch, .. } = self.lease.as_ref()?;
        let (grant, server, rights) = (descriptor.grant, descriptor.extents.first()?.incarnation, *rights);
        let attach = AttachRegion { grant, server, chunk_log2: CHUNK_LOG2, rights, mode, epoch: *epoch };
        Some(self.request(Role::Agent, &PagingRequest::Attach(attach), &[]))
    }

    /// Nothing more goes through the agent until the server has been told to refuse what it may still send.
    fn leave_agent(&mut self) {
        let writes = self.lease.as_ref().is_some_and(|lease| lease.rights == WRITER);
        self.stage = if writes { Stage::Fencing { is_asked: false } } else { Stage::Saving };
        self.fetching.clear();
        self.outgoing.clear();
        self.unsaved.iter_mut().for_each(|unsaved| unsaved.tag = None);
    }

    /// The lease is no more, and with it what was to be written.
    fn lose_lease(&mut self) {
        self.leave_agent();
        self.detach();
        (self.lease, self.stage) = (None, Stage::Away);
        self.unsaved.clear();
    }

    fn detach(&mut self) {
        if let (Some(Grant { region, generation, .. }), true) = (self.grant(), self.agent.is_some()) {
            self.request(Role::Agent, &PagingRequest::Detach(DetachRegion { region, generation }), &[]);
        }
    }

    /// The region is given back.
    fn release(&mut self) {
        self.detach();
        self.stage = Stage::Releasing { is_asked: false };
    }

    /// Does what the present stage asks for.
    fn advance(&mut self, now: Time) {
        let is_over = self.lease.as_ref().is_some_and(|lease| now >= lease.until.min(self.until));
        let is_quiet = self.fetching.is_empty() && self.unsaved.is_empty();
        match self.stage {
            Stage::Away if self.server.is_some() && now >= self.next_at && now < self.until => self.ask(),
            Stage::Fencing { is_asked: false } if self.server.is_some() => {
                let Some(Grant { region, generation, key, .. }) = self.grant() else { return };
                self.request(
                    Role::MemoryServer,
                    &PagingRequest::Fence(Fence { region, generation, key }),
                    &[],
                );
                self.stage = Stage::Fencing { is_asked: true };
            }
            Stage::Saving if self.unsaved.is_empty() && is_over => self.release(),
            Stage::Saving if self.unsaved.is_empty() && self.agent.is_some() && now >= self.next_at => {
                self.heard_at = now;
                self.stage = self.attach().map_or(Stage::Away, Stage::Attaching);
            }
            Stage::Saving if self.server.is_some() && !self.unsaved.is_empty() => {
                let mut unsaved = std::mem::take(&mut self.unsaved);
                for it in unsaved.iter_mut().filter(|it| it.tag.is_none()) {
                    it.tag = self.write_back(Role::MemoryServer, it);
                }
                self.unsaved = unsaved;
            }
            Stage::Attached if is_over && is_quiet => self.release(),
            Stage::Attached if !is_quiet && now >= self.heard_at + PATIENCE => self.leave_agent(),
            Stage::Attaching(_) if now >= self.heard_at + PATIENCE => self.leave_agent(),
            Stage::Attached if !is_over && now >= self.next_at => {
                let pause = if self.random.u8(..) < 96 { 0 } else { self.random.u64(1..400) };
                self.next_at = now + Duration::from_micros(pause);
                if self.fetching.len() + self.unsaved.len() < DEPTH {
                    self.act(now);
                }
            }
            Stage::Releasing { is_asked: false } if self.server.is_some() => {
                let Some(Grant { region, generation, .. }) = self.grant() else { return };
                self.question(&Question::Release { region, generation });
                self.stage = Stage::Releasing { is_asked: true };
            }
            _ => {}
        }
    }

    fn grant(&self) -> Option<Grant> {
        self.lease.as_ref().map(|lease| lease.descriptor.grant)
    }

    /// Asks the server for a region.
    fn ask(&mut self) {
        let name = RegionName::new(&format!("region {}", self.random.usize(..self.regions)));
        let rights = if self.random.u8(..3) == 0 { Rights::READ } else { WRITER };
        self.asked = (name, rights);
        let tag = self.question(&Question::OpenNamed { name, rights, sharing: RegionSharing::Leased });
        self.stage = Stage::Asking(tag);
    }

    fn on_answer(&mut self, now: Time, tag: u32, answer: ControlAnswer) {
        match (self.stage, answer) {
            (Stage::Asking(asked), ControlAnswer::Region(descriptor)) if asked == tag => {
                let Some(session) = self.books.session(self.process) else { return };
                let until = now + Duration::from_millis(self.random.u64(5..120));
                let (epoch, rights) = (descriptor.epoch, self.asked.1);
                self.lease = Some(Lease { descriptor, rights, epoch, session, until });
                self.stage = Stage::Saving;
            }
            (Stage::Asking(asked), ControlAnswer::Failed { failure: ControlFailure::NoSuchRegion, .. })
                if asked == tag =>
            {
                let (name, sharing) = (self.asked.0, RegionSharing::Leased);
                self.asked.1 = WRITER;
                let (size, chunk_log2) = (SIZE as u64, CHUNK_LOG2);
                let tag = self.question(&Question::Reserve { size, chunk_log2, name, sharing });
                self.stage = Stage::Asking(tag);
            }
            (Stage::Asking(asked), _) if asked == tag => {
                self.stage = Stage::Away;
                self.next_at = now + PAUSE;
            }
            // Given as often as it was asked for, released as often.
            (Stage::Releasing { .. }, ControlAnswer::Released) => {
                self.stage = Stage::Releasing { is_asked: false };
            }
            (Stage::Releasing { .. }, _) => self.lose_lease(),
            _ => {}
        }
    }

    fn on_reply(&mut self, now: Time, tag: u32, reply: PagingReply, data: &[u8]) {
        match reply {
            PagingReply::Attached { .. } if self.stage == Stage::Attaching(tag) => {
                self.stage = Stage::Attached;
            }
            // It has no server at present: tried again after a while.
            PagingReply::Refused { reason: AttachRefusal::NoServer, .. }
                if self.stage == Stage::Attaching(tag) =>
            {
                self.stage = Stage::Saving;
                self.next_at = now + PAUSE;
            }
            PagingReply::Refused { .. } if self.stage == Stage::Attaching(tag) => {
                self.next_at = now + PAUSE;
                match self.lease.as_ref().map(|lease| lease.rights) {
                    Some(WRITER) => self.leave_agent(),
                    _ => self.release(),
                }
            }
            PagingReply::Fenced { status, epoch } if self.stage == (Stage::Fencing { is_asked: true }) => {
                match (status, &mut self.lease) {
                    (PagingStatus::Done, Some(lease)) => (lease.epoch, self.stage) = (epoch, Stage::Saving),
                    _ => self.lose_lease(),
                }
            }
            PagingReply::Fetched { status, .. } => {
                let (Some(grains), Some(lease)) = (self.fetching.remove(&tag), &self.lease) else { return };
                match status {
                    PagingStatus::Done => self.books.fetched(lease.session, grains, data),
                    PagingStatus::Unavailable | PagingStatus::Busy | PagingStatus::NotOpen => {
                        self.leave_agent()
                    }
                    other => self
                        .books
                        .recorder()
                        .fail(format!("what is asked for rightly is brought, not {other:?}")),
                }
            }
            PagingReply::Written { status, .. } => {
                let at = self.unsaved.iter().position(|unsaved| unsaved.tag == Some(tag));
                let (Some(at), Some(lease)) = (at, &self.lease) else { return };
                match status {
                    PagingStatus::Done => {
                        let unsaved = self.unsaved.swap_remove(at);
                        self.books.written(lease.session, unsaved.stamp);
                    }
                    _ => self.leave_agent(),
                }
            }
            _ => {}
        }
    }
}

impl Service for Application {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, _: Time) {
        if peer.intro().role == Role::Agent {
            self.agent = Some(link);
            return;
        }
        self.server = Some(link);
        let extent = self.lease.as_ref().and_then(|lease| lease.descriptor.extents.first());
        if extent.is_some_and(|extent| extent.incarnation != peer.incarnation()) {
            self.lose_lease();
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if self.agent == Some(link) {
            self.heard_at = now;
        }
        let tag = frame.head.tag;
        match read_reply(&frame) {
            Some((reply, data)) => self.on_reply(now, tag, reply, &data.to_vec()),
            None => match ControlAnswer::decode(frame.head.kind, &frame.payload.to_vec()) {
                Ok(answer) => self.on_answer(now, tag, answer),
                Err(error) => self.books.recorder().fail(format!("answers can be read: {error}")),
            },
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        self.advance(now);
        let role = if self.agent == Some(id) { Role::Agent } else { Role::MemoryServer };
        let mut moved = false;
        while let Some(at) = self.outgoing.iter().position(|outgoing| outgoing.to == role) {
            match link.send(self.outgoing[at].head, &self.outgoing[at].payload) {
                Ok(()) => drop(self.outgoing.remove(at)),
                Err(FrameSendError::Lost(error)) => return Err(error),
                Err(_) => break,
            }
            moved = true;
        }
        Ok(moved)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, now: Time) {
        let role = if self.agent == Some(link) { Role::Agent } else { Role::MemoryServer };
        self.outgoing.retain(|outgoing| outgoing.to != role);
        if role == Role::Agent {
            self.agent = None;
            if matches!(self.stage, Stage::Attached | Stage::Attaching(_)) {
                self.leave_agent();
            }
            return;
        }
        self.server = None;
        match self.stage {
            // Frames that were sent there may still arrive, after those that are sent next.
            Stage::Fencing { .. } | Stage::Saving => self.leave_agent(),
            Stage::Releasing { .. } => self.stage = Stage::Releasing { is_asked: false },
            Stage::Asking(_) => {
                self.stage = Stage::Away;
                self.next_at = now + PAUSE;
            }
            Stage::Away | Stage::Attaching(_) | Stage::Attached => {}
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let is_quiet = self.fetching.is_empty() && self.unsaved.is_empty();
        match self.stage {
            Stage::Away if self.next_at < self.until && self.server.is_some() => Some(self.next_at),
            Stage::Saving if self.unsaved.is_empty() && self.agent.is_some() => Some(self.next_at),
            Stage::Attached if is_quiet => Some(self.next_at),
            Stage::Attached => Some(self.next_at.max(self.heard_at).min(self.heard_at + PATIENCE)),
            Stage::Attaching(_) => Some(self.heard_at + PATIENCE),
            _ => None,
        }
    }

    fn on_time(&mut self, now: Time) {
        // Looked at again when something has ended, or after a while.
        if self.fetching.len() + self.unsaved.len() >= DEPTH {
            self.next_at = self.next_at.max(now + Duration::from_micros(200));
        }
    }
}
