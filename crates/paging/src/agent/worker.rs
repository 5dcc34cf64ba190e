//! One worker of an agent: which frame, completion or loss is whose business.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outboard_contract::memory::Buffer;
use outboard_contract::{
    AccessError, AccessOutcome, Completion, Disposition, Frame, Link, LinkError, LinkId, Peer, RemoteMemory,
};
use outboard_wire::paging::{AttachRegion, PagingReply, PagingRequest, PagingStatus};
use outboard_wire::{Incarnation, Time};

use super::cache::{EndedWait, LoadOrder, Purpose, RegionNumber, Slab, WaiterId, WriteItem};
use super::client::ClientSide;
use super::server::{ServerSide, Token};
use super::shared::{Delivery, SharedPaging};
use crate::frame::{read_reply, read_request};

/// How often the numbers are shown while something happens.
const SHOW_EVERY: Duration = Duration::from_millis(20);

/// A request that has been taken and not answered.
pub(super) enum Pending {
    /// Bytes from the cache.
    Fetch { client: LinkId, tag: u32 },
    /// Bytes that are not cached.
    Uncached { client: LinkId, tag: u32, bounce: u32, len: u32 },
    /// A write-back.
    Write { client: LinkId, tag: u32 },
    /// An attachment that waits for its region to be opened, or, once it has a number, for a static copy of it.
    Attach { client: LinkId, tag: u32, attach: AttachRegion, number: Option<RegionNumber> },
}

/// The part of one worker of an agent in far memory.
pub struct PagingWorker {
    pub(super) index: usize,
    pub(super) shared: Arc<SharedPaging>,
    /// In order, so that a simulated agent does the same again.
    pub(super) clients: BTreeMap<LinkId, ClientSide>,
    pub(super) servers: Vec<ServerSide>,
    pub(super) pending: Slab<Pending>,
    /// Places for bytes that are not cached.
    pub(super) bounces: Vec<u32>,
    /// Slots whose answers have been sent.
    pub(super) released: Vec<u32>,
    pub(super) orders: Vec<LoadOrder>,
    pub(super) ended: Vec<EndedWait>,
    pub(super) over: Vec<(Purpose, bool)>,
    pub(super) written: Vec<WriteItem>,
    /// When the numbers are to be shown; none while nothing happens.
    pub(super) publish_at: Option<Time>,
}

impl PagingWorker {
    /// The worker of this number.
    pub fn new(index: usize, shared: Arc<SharedPaging>) -> Self {
        Self {
            index,
            bounces: shared.bounces(index).collect(),
            shared,
            clients: BTreeMap::new(),
            servers: Vec::new(),
            pending: Slab::default(),
            released: Vec::new(),
            orders: Vec::new(),
            ended: Vec::new(),
            over: Vec::new(),
            written: Vec::new(),
            publish_at: None,
        }
    }

    /// A server has begun a new life: what is cached of the old one is of no use.
    pub fn server_restarted(&self, before: Incarnation) {
        self.shared.server_restarted(before);
    }

    /// A link to a memory server is open. `stage` has [`STAGE_LEN`](super::STAGE_LEN) bytes for what is written back there.
    pub fn on_server(&mut self, link: LinkId, peer: &Peer, stage: Buffer) {
        self.servers.push(ServerSide::new(link, peer.clone(), self.shared.config().forwarding, stage));
        self.open_again(link);
    }

    /// A frame about far memory has come.
    pub fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let tag = frame.head.tag;
        self.show_soon(now);
        if self.servers.iter().any(|side| side.link == link) {
            self.on_reply(link, tag, read_reply(&frame).map(|(reply, _)| reply));
            return Disposition::Taken;
        }
        let client = self.clients.entry(link).or_default();
        if !client.has_room() {
            return Disposition::Deferred;
        }
        let Some((request, data)) = read_request(&frame) else {
            if let Some(reply) = PagingReply::to_malformed(frame.head.kind) {
                client.answer(tag, reply);
            }
            return Disposition::Taken;
        };
        match request {
            PagingRequest::Fetch(fetch) => return self.fetch(link, tag, &fetch, now),
            PagingRequest::WriteBack(back) => return self.write_back(link, tag, &back, data),
            PagingRequest::Attach(attach) => self.attach(link, tag, attach, now),
            PagingRequest::Detach(detach) => self.detach(link, &detach),
            // A request that a server has to serve at once is not for an agent.
            PagingRequest::Discard(_) => {
                client.answer(tag, PagingReply::Written { status: PagingStatus::NotOpen, epoch: 0 })
            }
            PagingRequest::Fence(_) => {
                client.answer(tag, PagingReply::Fenced { status: PagingStatus::NotOpen, epoch: 0 })
            }
        }
        Disposition::Taken
    }

    /// A one-sided operation has ended.
    pub fn on_completion(&mut self, link: LinkId, completion: &Completion, now: Time) {
        let Some(index) = self.servers.iter().position(|side| side.link == link) else { return };
        self.show_soon(now);
        let is_done = completion.result.is_ok();
        match Token::decode(completion.token) {
            Token::Read { id, len } => self.end_read(index, (id, len, is_done), now),
            Token::Static { number } => self.end_static_read(index, number, is_done),
            Token::Open { number } => {
                let opened = match &completion.result {
                    Ok(AccessOutcome::Opened(region)) => Ok(*region),
                    Ok(_) => Err(AccessError::NotOpen),
                    Err(error) => Err(error.clone()),
                };
                self.opened(index, number, opened, now);
            }
        }
    }

    /// Sends what is due on a link. Returns whether anything was.
    pub fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        match self.servers.iter().position(|side| side.link == id) {
            Some(index) => self.send_to_server(index, link, now),
            None => self.send_to_client(id, link, now),
        }
    }

    /// Adds the links on which something is or may be due: those to servers, and those of clients whose answers wait.
    pub fn rouse(&self, links: &mut Vec<LinkId>) {
        links.extend(self.servers.iter().map(|side| side.link));
        let waiting = self.clients.iter().filter(|(_, client)| client.has_answers());
        links.extend(waiting.map(|(link, _)| *link));
    }

    /// Another worker has something for a request of this one.
    pub fn on_delivery(&mut self) {
        for delivery in self.shared.take_deliveries(self.index) {
            match delivery {
                Delivery::Ended(end) => self.end_wait(end),
                Delivery::StaticReady(waiter) => self.static_ready(waiter),
            }
        }
    }

    /// A link is gone.
    pub fn on_lost(&mut self, link: LinkId, now: Time) {
        self.show_soon(now);
        match self.servers.iter().position(|side| side.link == link) {
            Some(index) => self.lose_server(index, now),
            None => self.lose_client(link),
        }
    }

    /// How much is kept here for applications: attachments, requests, answers, and regions that are open at servers.
    pub fn held(&self) -> usize {
        let open = self.servers.iter().map(|side| side.openings.len() + side.opened.len());
        let clients = self.clients.values().map(ClientSide::held);
        self.pending.len() + open.sum::<usize>() + clients.sum::<usize>()
    }

    /// When [`on_time`](Self::on_time) is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.publish_at
    }

    /// Time has passed. Returns whether the [report](SharedPaging::report) has changed and should be shown.
    #[must_use]
    pub fn on_time(&mut self, now: Time) -> bool {
        let is_due = self.publish_at.take_if(|at| *at <= now).is_some();
        if is_due && self.relieve(now) {
            self.publish_at = Some(now + SHOW_EVERY);
        }
        is_due
    }

    /// Something has happened that the numbers must show: also what servers answer, or they would show for ever what was
    /// true when the last question came.
    pub(super) fn show_soon(&mut self, now: Time) {
        self.publish_at.get_or_insert(now + SHOW_EVERY);
    }

    /// The name of a request for the cache.
    pub(super) fn waiter(&self, number: u32) -> WaiterId {
        WaiterId((self.index as u64) << 32 | u64::from(number))
    }
}
