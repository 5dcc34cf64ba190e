//! Far memory through the agent: the page cache that all its threads share, on the links that each of them has.
//!
//! ```text
//!  application            one worker thread of the agent                          memory server
//!  Fetch ───────────────► fetch.rs: attached? ─► PageCache (locked for a look-up)
//!                           hit: answer queued        miss: orders into the lane of this worker's link
//!  ◄─ Fetched + bytes ──── client.rs: copied          server.rs: one-sided reads ──────────────────► region
//!                           straight out of the cache  ◄────────────── straight into the cache ────
//!  WriteBack + bytes ────► write_back.rs: cache brought up to date, bytes staged
//!                                                     server.rs: combined ─────────── WriteBack ───►
//!  ◄─ Written ──────────── client.rs                  ◄───────────────────────────── Written ──────
//! ```
//!
//! Every worker has a link of its own to every memory server, so a request never crosses threads. If the bytes that
//! a request waits for are on their way to another worker, that one tells of their arrival.

mod attach;
mod client;
mod fetch;
mod numbers;
mod server;
mod shared;
mod statics;
mod write_back;

use std::collections::BTreeMap;
use std::sync::Arc;

use outboard_driver::LinkId;
use outboard_link::memory::Window;
use outboard_link::{
    AccessError, Completion, Disposition, Frame, Link, LinkError, Outcome, Peer, RemoteMemory,
};
use outboard_paging::cache::{Ended, LoadOrder, Purpose, RegionNumber, Slab, Waiter, WriteItem};
use outboard_wire::paging::{Attach, FIXED_LEN_MAX, Reply, Request};
use outboard_wire::{Incarnation, Kind, Role, Room, Time};

use client::{Answer, ClientSide};
use server::{ServerSide, Token};
pub use shared::{PagingConfig, SharedPaging};

/// The longest fetch or write-back that is served, in bytes.
pub(crate) const FETCH_MAX: u32 = 256 << 10;

/// A request that has been taken and not answered.
enum Pending {
    /// Bytes from the cache.
    Fetch { client: LinkId, tag: u32 },
    /// Bytes that are not cached.
    Uncached { client: LinkId, tag: u32, bounce: u32, len: u32 },
    /// A write-back.
    Write { client: LinkId, tag: u32 },
    /// An attachment that waits for its region to be opened, or, once it has a number, for a static copy of it.
    Attach { client: LinkId, tag: u32, attach: Attach, number: Option<RegionNumber> },
}

/// What one worker of an agent does about far memory.
pub struct PagingWorker {
    index: usize,
    shared: Arc<SharedPaging>,
    /// In order, so that a simulated agent does the same again.
    clients: BTreeMap<LinkId, ClientSide>,
    servers: Vec<ServerSide>,
    pending: Slab<Pending>,
    /// Places for bytes that are not cached.
    bounces: Vec<u32>,
    /// Slots whose answers have been sent.
    released: Vec<u32>,
    orders: Vec<LoadOrder>,
    ended: Vec<Ended>,
    over: Vec<(Purpose, bool)>,
    written: Vec<WriteItem>,
    /// When the numbers are to be shown; none while nothing happens.
    publish_at: Option<Time>,
}

/// Whether a frame is about far memory.
pub(crate) fn is_paging(kind: Kind) -> bool {
    kind.0 >> 8 == Room::Paging as u16
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

    /// A link is open.
    pub fn on_open(&mut self, link: LinkId, peer: &Peer, is_dialled: bool) {
        if is_dialled && peer.intro().role == Role::MemoryServer {
            match ServerSide::new(link, peer.clone(), self.shared.config()) {
                Ok(side) => {
                    self.servers.push(side);
                    self.open_again(link);
                }
                Err(error) => tracing::warn!("no memory to write back to {peer}: {error}"),
            }
        }
    }

    /// A frame about far memory has come.
    pub fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let Frame { head, payload } = frame;
        self.show_soon(now);
        if self.servers.iter().any(|side| side.link == link) {
            self.on_reply(link, head.tag, read_reply(frame));
            return Disposition::Taken;
        }
        let client = self.clients.entry(link).or_default();
        if !client.has_room() {
            return Disposition::Deferred;
        }
        let Some((request, data)) = read_request(head.kind, payload) else {
            if let Some(reply) = Reply::to_malformed(head.kind) {
                client.answer(head.tag, reply);
            }
            return Disposition::Taken;
        };
        match request {
            Request::Fetch(fetch) => self.fetch(link, head.tag, &fetch, now),
            Request::WriteBack(back) => self.write_back(link, head.tag, &back, data),
            Request::Attach(attach) => {
                self.attach(link, head.tag, attach, now);
                Disposition::Taken
            }
            Request::Detach(detach) => {
                self.detach(link, &detach);
                Disposition::Taken
            }
            Request::Fence(_) => {
                let status = outboard_wire::paging::Status::NotOpen;
                client.answer(head.tag, Reply::Fenced { status, epoch: 0 });
                Disposition::Taken
            }
        }
    }

    /// A one-sided operation has ended.
    pub fn on_completion(&mut self, link: LinkId, completion: &Completion, now: Time) {
        let Some(index) = self.servers.iter().position(|side| side.link == link) else { return };
        self.show_soon(now);
        let is_done = completion.result.is_ok();
        match Token::decode(completion.token) {
            Token::Read { id, len } => {
                let side = &mut self.servers[index];
                let bytes = if is_done { len.into() } else { 0 };
                side.busy.end(self.shared.time(now), bytes);
                self.shared.numbers.read_bytes_total.add(bytes);
                let over = &mut self.over;
                side.lane.read_ended(id, is_done, |purpose, is_done| over.push((purpose, is_done)));
                self.end_transfers(Some(index), now);
            }
            Token::Static { number } => self.end_static_read(index, number, is_done),
            Token::Open { number } => {
                let opened = match &completion.result {
                    Ok(Outcome::Opened(region)) => Ok(*region),
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
    pub fn on_delivery(&mut self, now: Time) {
        for delivery in self.shared.take_deliveries(self.index) {
            match delivery {
                shared::Delivery::Ended(end) => self.end_wait(end),
                shared::Delivery::StaticReady(waiter) => self.static_ready(waiter, now),
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

    /// When [`on_time`](Self::on_time) is due.
    pub fn next_deadline(&self) -> Option<Time> {
        self.publish_at
    }

    /// Shows the numbers.
    pub fn on_time(&mut self, now: Time) {
        if self.publish_at.take_if(|at| *at <= now).is_some() {
            if self.relieve(now) {
                self.publish_at = Some(now + numbers::PERIOD);
            }
            self.shared.publish(now);
        }
    }

    /// Something has happened that the numbers must show: also what servers answer, or they would show for ever what was
    /// true when the last question came.
    fn show_soon(&mut self, now: Time) {
        self.publish_at.get_or_insert(now + numbers::PERIOD);
    }

    /// What names a request to the cache.
    fn waiter(&self, number: u32) -> Waiter {
        Waiter((self.index as u64) << 32 | u64::from(number))
    }

    /// Queues an answer to whoever asked, if that one is still there.
    fn answer(&mut self, client: LinkId, answer: Answer) {
        match self.clients.get_mut(&client) {
            Some(side) => side.push(answer),
            None => self.discard(answer),
        }
    }

    /// Gives back what an answer holds that will not be sent.
    fn discard(&mut self, answer: Answer) {
        match answer {
            Answer::Slot { place, .. } => self.shared.state().cache.release(place.slot),
            Answer::Bounce { bounce, .. } => self.bounces.push(bounce),
            Answer::Static { .. } | Answer::Plain { .. } => {}
        }
    }
}

/// The request and the data behind it, which stay where they arrived; none if it cannot be read.
fn read_request(kind: Kind, payload: Window<'_>) -> Option<(Request, Window<'_>)> {
    let len = Request::fixed_len(kind)?;
    let data_len = payload.len().checked_sub(len)?;
    let mut fixed = [0; FIXED_LEN_MAX];
    let fixed = fixed.get_mut(..len)?;
    payload.read(0, fixed);
    let request = Request::decode(kind, fixed, data_len).ok()?;
    Some((request, payload.part(len, data_len)))
}

/// A reply without data; none if it is something else.
fn read_reply(frame: Frame<'_>) -> Option<Reply> {
    let len = Reply::fixed_len(frame.head.kind)?;
    let mut fixed = [0; FIXED_LEN_MAX];
    let fixed = fixed.get_mut(..len)?;
    let data_len = frame.payload.len().checked_sub(len)?;
    frame.payload.read(0, fixed);
    Reply::decode(frame.head.kind, fixed, data_len).ok()
}
