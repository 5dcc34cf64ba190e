//! Fire-and-forget messages through the agent: runs are packed by their next hop.
//!
//! ```text
//!  rank              one worker thread of the agent                        rank of this node, or another agent
//!  Run ────────────► side.rs: queue
//!                    pack.rs: next hop, room in its open parcel?
//!  (its memory) ───► the bytes, straight into the parcel
//!                    full, or nothing to wait for: closed ── if another worker has the link, by an errand ──┐
//!                    send.rs: word of it, or the bytes ───────────────────────────────────────► Parcel  ◄──┘
//!                    ◄─────────────────────────────────────────────────────────────────────── Taken
//!  Parcel ─────────► unpack.rs: taken apart; what is nearly a parcel for a rank goes to it as it lies, other runs are
//!                    packed by their next hop
//! ```
//!
//! Every worker packs into buffers of its own what its links bring; no lock and nothing shared is touched for a run but
//! the memory that it lies in. What a next hop does not take waits, and nothing is dropped that could be delivered; what
//! cannot is sent again by its source, which is told that the rank is not reached any more.

mod backlog;
mod buffers;
mod numbers;
mod pack;
mod receive;
mod send;
mod shared;
mod side;
mod unpack;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use outboard_driver::LinkId;
use outboard_link::{AccessError, Completion, Outcome, Peer};
use outboard_routing::Packing;
use outboard_wire::routing::{Announcement, JobKey};
use outboard_wire::{Kind as FrameKind, Role, Room, Time};

use backlog::Backlog;
use buffers::Buffers;
use numbers::Tally;
use shared::{Errand, Hop, Table};
pub use shared::{RoutingConfig, SharedRouting};
use side::{Kind, Parcel, Side};
use unpack::Stretch;

/// Whether a frame is about messages.
pub(crate) fn is_routing(kind: FrameKind) -> bool {
    kind.0 >> 8 == Room::Routing as u16
}

/// How much one link may have to be told of who is reached: more than there are ranks in a few jobs.
const ANNOUNCEMENTS_MAX: usize = 1 << 18;

/// What one worker packs for one next hop.
struct Hopper {
    job: JobKey,
    hop: Hop,
    packing: Packing,
    /// What lies ready for it, until it takes more.
    waiting: VecDeque<Stretch>,
}

/// What one worker of an agent does about messages.
pub struct RoutingWorker {
    index: usize,
    shared: Arc<SharedRouting>,
    version: u64,
    table: Arc<Table>,
    /// In order, so that a simulated agent does the same again.
    sides: BTreeMap<LinkId, Side>,
    hoppers: BTreeMap<u64, Hopper>,
    /// Which hopper leads to a link for a job.
    by_hop: HashMap<(JobKey, LinkId), u64>,
    next_hopper: u64,
    /// The hoppers whose parcels are open.
    open: Vec<u64>,
    buffers: Buffers,
    /// Goes up whenever there may be room that was not there before.
    freed: u64,
    backlog: Backlog,
    /// Who was refused and is to be told why.
    refusals: BTreeMap<LinkId, String>,
    /// Links that are to be closed, and why: whoever is behind them goes another way as soon as it knows.
    given_up: BTreeMap<LinkId, String>,
    errands: Vec<Vec<Errand>>,
    tally: Tally,
    publish_at: Option<Time>,
}

impl RoutingWorker {
    /// The worker of this number.
    pub fn new(index: usize, shared: Arc<SharedRouting>) -> Self {
        Self {
            index,
            version: 0,
            table: Arc::default(),
            sides: BTreeMap::new(),
            hoppers: BTreeMap::new(),
            by_hop: HashMap::new(),
            next_hopper: 0,
            open: Vec::new(),
            buffers: Buffers::new(shared.buffers(index)),
            freed: 0,
            backlog: Backlog::default(),
            refusals: BTreeMap::new(),
            given_up: BTreeMap::new(),
            errands: (0..shared.config().workers).map(|_| Vec::new()).collect(),
            tally: Tally::default(),
            publish_at: None,
            shared,
        }
    }

    /// Whether a link is one for messages.
    pub fn has(&self, link: LinkId) -> bool {
        self.sides.contains_key(&link)
    }

    /// Adds the links on which something may be due: all that carry messages.
    pub fn rouse(&self, links: &mut Vec<LinkId>) {
        links.extend(self.sides.keys().chain(self.refusals.keys()).chain(self.given_up.keys()));
    }

    /// A link is open.
    pub fn on_open(&mut self, link: LinkId, peer: &Peer) {
        if peer.intro().role == Role::Agent {
            self.sides.insert(link, Side::new(Kind::Agent { is_met: false }));
        }
    }

    /// A one-sided operation has ended.
    pub fn on_completion(&mut self, link: LinkId, completion: &Completion) {
        let Some(Side { kind: Kind::Rank(rank), .. }) = self.sides.get_mut(&link) else { return };
        match &completion.result {
            Ok(Outcome::Opened(region)) => rank.region = Some(*region),
            Ok(_) | Err(AccessError::Lost(_)) => {}
            Err(error) => {
                let why = format!("the bundles of rank {} cannot be read: {error}", rank.attachment.rank.0);
                self.give_up(link, why);
            }
        }
    }

    /// A link is gone.
    pub fn on_lost(&mut self, link: LinkId) {
        self.refusals.remove(&link);
        self.given_up.remove(&link);
        self.detach(link);
    }

    /// Has a link closed.
    fn give_up(&mut self, link: LinkId, why: String) {
        if let Some(unsaid) = self.shared.warnings.say() {
            tracing::warn!(unsaid, "a link for messages is given up: {why}");
        }
        self.given_up.insert(link, why);
    }

    /// Forgets who is at the other end of a link, and tells everybody.
    fn detach(&mut self, link: LinkId) {
        let Some(side) = self.sides.remove(&link) else { return };
        if let Kind::Rank(_) = side.kind {
            self.shared.numbers.ranks.add(u64::MAX);
        }
        side.parcels.into_iter().for_each(|parcel| self.give_back(&parcel, true));
        side.under_way.into_values().for_each(|sent| self.give_back(&sent.parcel, sent.is_read));
        self.shared.lose(link);
    }

    /// A parcel is not on its way any more; its buffer may have been given back before.
    fn give_back(&mut self, parcel: &Parcel, has_buffer: bool) {
        if parcel.worker == self.index {
            if has_buffer {
                self.buffers.give_back(parcel.buffer);
            }
            self.on_taken(parcel.packing);
            return;
        }
        let errands = &mut self.errands[parcel.worker];
        if has_buffer {
            errands.push(Errand::Free(parcel.buffer));
        }
        errands.push(Errand::Taken(parcel.packing));
    }

    fn on_taken(&mut self, id: u64) {
        self.freed += 1;
        if let Some(hopper) = self.hoppers.get_mut(&id) {
            hopper.packing.on_taken();
        }
        self.pass_on(id);
    }

    /// Another worker has something for this one.
    pub fn on_delivery(&mut self) {
        for errand in self.shared.take_errands(self.index) {
            match errand {
                Errand::Announce(link, announcement) => self.announce(link, announcement),
                Errand::Send(link, parcel) => match self.sides.get_mut(&link) {
                    Some(side) => side.parcels.push_back(parcel),
                    None => self.give_back(&parcel, true),
                },
                Errand::Forget(link) => self.detach(link),
                Errand::Free(buffer) => self.buffers.give_back(buffer),
                Errand::Taken(packing) => self.on_taken(packing),
            }
        }
    }

    /// Has somebody told whom this agent reaches.
    fn announce(&mut self, link: LinkId, announcement: Announcement) {
        let Some(side) = self.sides.get_mut(&link) else { return };
        if side.announcements.len() < ANNOUNCEMENTS_MAX {
            side.announcements.push_back(announcement);
        } else if !self.given_up.contains_key(&link) {
            self.give_up(link, format!("it has not heard {ANNOUNCEMENTS_MAX} times who is reached"));
        }
    }

    /// Does what is due before the links have their turn. Returns whether there was anything.
    pub fn on_turn(&mut self, now: Time) -> bool {
        if self.version != self.shared.version() {
            self.look_up_routes();
        }
        if self.sides.is_empty() {
            return false;
        }
        let mut moved = self.unblock(now);
        moved |= self.close_due(now);
        self.run_errands();
        moved
    }

    /// Gives other workers what is for them.
    fn run_errands(&mut self) {
        for worker in 0..self.errands.len() {
            if !self.errands[worker].is_empty() {
                let errands = std::mem::take(&mut self.errands[worker]);
                self.shared.post(worker, errands);
            }
        }
    }

    /// Next hops may have changed.
    fn look_up_routes(&mut self) {
        self.version = self.shared.version();
        self.table = self.shared.table();
        self.freed += 1;
        let table = Arc::clone(&self.table);
        let is_used = |hopper: &Hopper| {
            let hops = table.jobs.get(&hopper.job);
            hops.is_some_and(|hops| hops.values().any(|hop| hop.link == hopper.hop.link))
        };
        let gone: Vec<u64> =
            self.hoppers.iter().filter(|(_, hopper)| !is_used(hopper)).map(|(id, _)| *id).collect();
        for id in gone {
            let Some(mut hopper) = self.hoppers.remove(&id) else { continue };
            self.by_hop.remove(&(hopper.job, hopper.hop.link));
            let waiting = hopper.waiting.drain(..).map(|stretch| stretch.buffer());
            hopper
                .packing
                .give_up()
                .into_iter()
                .chain(waiting)
                .for_each(|buffer| self.buffers.give_back(buffer));
            self.open.retain(|open| *open != id);
        }
    }

    /// When time matters.
    pub fn next_deadline(&self) -> Option<Time> {
        let open = self.open.iter().filter_map(|id| self.hoppers.get(id)?.packing.next_deadline());
        open.chain(self.publish_at).min()
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Time) {
        if self.publish_at.is_some_and(|at| at <= now) {
            self.publish_at = None;
            self.shared.numbers.add(std::mem::take(&mut self.tally));
        }
    }
}
