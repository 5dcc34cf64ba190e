//! An application: fetches, writes back, and finds its way when the agent does not help.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, RemoteMemory, SendError};
use outboard_wire::paging::{
    Attach, CacheMode, FIXED_LEN_MAX, Fence, Fetch, Reply, Request, Status, Urgency, WriteBack,
};
use outboard_wire::{FrameHead, Grant, Incarnation, Role, Time};

use super::layout::{CHUNK_LOG2, GRAINS, RIGHTS, grant, span};
use super::server::Region;
use crate::{Boot, Recorder};

/// How many requests are under way at most.
const DEPTH: usize = 8;

/// How the region stands at the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Not attached; the server has to be told to refuse what the agent may still send.
    Fenced { is_asked: bool },
    /// What was not acknowledged is on its way to the server.
    Saving,
    /// It is being attached, under this tag.
    Attaching(u32),
    /// It is used through the agent.
    Attached,
}

/// Bytes that the server may not have.
struct Unsaved {
    grains: Range<usize>,
    bytes: Vec<u8>,
    /// Under which tag they were sent; none if they were not, or nobody will answer.
    tag: Option<u32>,
}

/// Uses one region.
pub(super) struct Application {
    grant: Grant,
    recorder: Recorder,
    random: Rng,
    server_life: Rc<RefCell<Option<Incarnation>>>,
    server: Option<LinkId>,
    agent: Option<LinkId>,
    standing: Standing,
    epoch: u64,
    mode: CacheMode,
    /// What the server is known to have.
    known: Vec<u8>,
    number: usize,
    /// Fetches under way through the agent, by tag.
    fetching: BTreeMap<u32, Range<usize>>,
    unsaved: Vec<Unsaved>,
    outgoing: Vec<(Role, u32, Request, Vec<u8>)>,
    next_tag: u32,
    next_at: Time,
    at: usize,
    until: Time,
}

impl Application {
    pub(super) fn new(
        boot: Boot,
        number: usize,
        recorder: Recorder,
        server_life: Rc<RefCell<Option<Incarnation>>>,
        until: Time,
    ) -> Self {
        let grant = grant(number);
        let mut random = boot.random;
        let modes =
            [CacheMode::Off, CacheMode::Static, CacheMode::Dynamic, CacheMode::Dynamic, CacheMode::Auto];
        let mode = modes[random.usize(..modes.len())];
        Self {
            known: vec![0; grant.size as usize],
            grant,
            recorder,
            random,
            server_life,
            server: None,
            agent: None,
            standing: Standing::Saving,
            epoch: 1,
            mode,
            number,
            fetching: BTreeMap::new(),
            unsaved: Vec::new(),
            outgoing: Vec::new(),
            next_tag: 1,
            next_at: boot.now,
            at: 0,
            until,
        }
    }

    /// Whether nothing is under way and nothing more will be.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        let is_done = self.fetching.is_empty() && self.unsaved.is_empty() && self.outgoing.is_empty();
        now >= self.until && is_done && self.standing == Standing::Attached
    }

    /// Looks whether the server has what was acknowledged.
    pub(super) fn compare(&self, memory: &[Region]) {
        let bytes = memory[self.number].bytes.window(0, self.known.len()).to_vec();
        self.recorder.expect(bytes == self.known, || {
            format!("what was acknowledged is at the server, but not for application {}", self.number)
        });
    }

    fn tag(&mut self) -> u32 {
        self.next_tag += 1;
        self.next_tag
    }

    fn is_busy(&self, grains: &Range<usize>) -> bool {
        let meets = |other: &Range<usize>| other.start < grains.end && grains.start < other.end;
        self.fetching.values().any(meets) || self.unsaved.iter().any(|unsaved| meets(&unsaved.grains))
    }

    fn send_later(&mut self, to: Role, request: Request, data: Vec<u8>) -> u32 {
        let tag = self.tag();
        self.outgoing.push((to, tag, request, data));
        tag
    }

    fn write_back(&self, unsaved: &Unsaved) -> Request {
        let Grant { region, generation, key, .. } = self.grant;
        let offset = span(unsaved.grains.clone()).start as u64;
        let (epoch, length) = (self.epoch, unsaved.bytes.len() as u32);
        Request::WriteBack(WriteBack { region, generation, key, epoch, offset, length })
    }

    /// Begins a fetch or a write-back through the agent.
    fn act(&mut self) {
        // Runs with jumps, so that something is read ahead.
        let jump = self.random.u8(..6) == 0;
        self.at = if jump { self.random.usize(..GRAINS) } else { (self.at + 1) % GRAINS };
        let count = self.random.usize(1..=4).min(GRAINS - self.at);
        let grains = self.at..self.at + count;
        if self.is_busy(&grains) {
            return;
        }
        let place = span(grains.clone());
        if self.random.u8(..3) == 0 {
            let bytes = vec![self.random.u8(1..); place.len()];
            let mut unsaved = Unsaved { grains, bytes, tag: None };
            let request = self.write_back(&unsaved);
            unsaved.tag = Some(self.send_later(Role::Agent, request, unsaved.bytes.clone()));
            self.unsaved.push(unsaved);
        } else {
            let Grant { region, generation, .. } = self.grant;
            let (offset, length, urgency) = (place.start as u64, place.len() as u32, Urgency::Demand);
            let fetch = Request::Fetch(Fetch { region, generation, offset, length, urgency });
            let tag = self.send_later(Role::Agent, fetch, Vec::new());
            self.fetching.insert(tag, grains);
        }
    }

    /// Nothing more goes through the agent until the server has been told to refuse what it may still send.
    fn leave_agent(&mut self) {
        self.standing = Standing::Fenced { is_asked: false };
        self.fetching.clear();
        self.outgoing.clear();
        self.unsaved.iter_mut().for_each(|unsaved| unsaved.tag = None);
    }

    /// Does what the present standing asks for.
    fn advance(&mut self, now: Time) {
        let Grant { region, generation, key, .. } = self.grant;
        match self.standing {
            Standing::Fenced { is_asked: false } if self.server.is_some() => {
                self.standing = Standing::Fenced { is_asked: true };
                self.send_later(
                    Role::MemoryServer,
                    Request::Fence(Fence { region, generation, key }),
                    Vec::new(),
                );
            }
            Standing::Saving if self.unsaved.is_empty() && now < self.next_at => {}
            Standing::Saving if self.unsaved.is_empty() => {
                let server = *self.server_life.borrow();
                if let (Some(_), Some(server)) = (self.agent, server) {
                    let attach = Attach {
                        grant: self.grant,
                        server,
                        chunk_log2: CHUNK_LOG2,
                        rights: RIGHTS,
                        mode: self.mode,
                        epoch: self.epoch,
                    };
                    let tag = self.send_later(Role::Agent, Request::Attach(attach), Vec::new());
                    self.standing = Standing::Attaching(tag);
                }
            }
            Standing::Saving if self.server.is_some() => {
                for index in 0..self.unsaved.len() {
                    if self.unsaved[index].tag.is_none() {
                        let request = self.write_back(&self.unsaved[index]);
                        let bytes = self.unsaved[index].bytes.clone();
                        self.unsaved[index].tag = Some(self.send_later(Role::MemoryServer, request, bytes));
                    }
                }
            }
            _ => {}
        }
    }

    fn on_reply(&mut self, now: Time, tag: u32, reply: Reply, data: &[u8]) {
        match reply {
            Reply::Attached { .. } if self.standing == Standing::Attaching(tag) => {
                self.standing = Standing::Attached;
            }
            // It has no server at present: tried again after a while.
            Reply::Refused { .. } if self.standing == Standing::Attaching(tag) => {
                self.standing = Standing::Saving;
                self.next_at = now + Duration::from_millis(1);
            }
            Reply::Fenced { epoch, .. } => {
                if self.standing == (Standing::Fenced { is_asked: true }) {
                    self.epoch = epoch;
                    self.standing = Standing::Saving;
                }
            }
            Reply::Fetched { status, .. } => {
                let Some(grains) = self.fetching.remove(&tag) else { return };
                match status {
                    Status::Done => self.check(grains, data),
                    Status::Unavailable => {}
                    other => {
                        self.recorder.fail(format!("what is asked for rightly is brought, not {other:?}"))
                    }
                }
            }
            Reply::Written { status, .. } => self.on_written(tag, status),
            Reply::Attached { .. } | Reply::Refused { .. } => {}
        }
    }

    fn check(&self, grains: Range<usize>, data: &[u8]) {
        let place = span(grains.clone());
        let expected = &self.known[place];
        self.recorder.expect(data == expected, || {
            let (got, wanted) = (data.first(), expected.first());
            format!("what is fetched is what was written last: {grains:?} is {got:?} instead of {wanted:?}")
        });
    }

    fn on_written(&mut self, tag: u32, status: Status) {
        let Some(at) = self.unsaved.iter().position(|unsaved| unsaved.tag == Some(tag)) else { return };
        if status == Status::Done {
            let Unsaved { grains, bytes, .. } = self.unsaved.swap_remove(at);
            self.known[span(grains)].copy_from_slice(&bytes);
        } else {
            self.leave_agent();
        }
    }
}

impl Service for Application {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: Origin, _: Time) {
        match peer.intro().role {
            Role::Agent => self.agent = Some(link),
            _ => self.server = Some(link),
        }
    }

    fn on_frame(&mut self, _: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let kind = frame.head.kind;
        let Some(len) = Reply::fixed_len(kind).filter(|len| *len <= frame.payload.len()) else {
            return Disposition::Taken;
        };
        let mut fixed = [0; FIXED_LEN_MAX];
        frame.payload.read(0, &mut fixed[..len]);
        let data = frame.payload.part(len, frame.payload.len() - len).to_vec();
        match Reply::decode(kind, &fixed[..len], data.len()) {
            Ok(reply) => self.on_reply(now, frame.head.tag, reply, &data),
            Err(error) => self.recorder.fail(format!("replies can be read: {error}")),
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
        let under_way = self.fetching.len() + self.unsaved.len();
        let is_time = now >= self.next_at && now < self.until;
        if self.standing == Standing::Attached && is_time && under_way < DEPTH {
            let pause = if self.random.u8(..) < 96 { 0 } else { self.random.u64(1..400) };
            self.next_at = now + Duration::from_micros(pause);
            self.act();
        }
        let role = if self.agent == Some(id) { Role::Agent } else { Role::MemoryServer };
        let mut moved = false;
        while let Some(at) = self.outgoing.iter().position(|(to, ..)| *to == role) {
            let (_, tag, request, data) = &self.outgoing[at];
            let payload = [request.encode().as_bytes(), data].concat();
            match link.send(FrameHead::new(request.kind()).with_tag(*tag), &payload) {
                Ok(()) => drop(self.outgoing.remove(at)),
                Err(SendError::Lost(error)) => return Err(error),
                Err(_) => break,
            }
            moved = true;
        }
        Ok(moved)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        if self.agent == Some(link) {
            self.agent = None;
            if matches!(self.standing, Standing::Attached | Standing::Attaching(_)) {
                self.leave_agent();
            }
        } else if self.server == Some(link) {
            self.server = None;
            // What was sent there may still arrive, after what is sent next.
            if matches!(self.standing, Standing::Fenced { .. } | Standing::Saving) {
                self.leave_agent();
            }
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let is_waiting = match self.standing {
            Standing::Attached => self.next_at < self.until,
            Standing::Saving => {
                self.unsaved.is_empty() && self.agent.is_some() && self.server_life.borrow().is_some()
            }
            _ => false,
        };
        is_waiting.then_some(self.next_at)
    }

    fn on_time(&mut self, now: Time) {
        // Looked at again when something has ended, or after a while.
        if self.standing == Standing::Attached && self.fetching.len() + self.unsaved.len() >= DEPTH {
            self.next_at = now + Duration::from_micros(200);
        }
    }
}
