//! What one worker of an agent does about messages.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use outboard_contract::{AccessError, AccessOutcome, Completion, LinkId, Peer};
use outboard_wire::routing::{Announcement, JobKey};
use outboard_wire::{Role, Time};

use super::Packing;
use super::backlog::Backlog;
use super::buffers::ParcelBuffers;
use super::shared::{Errand, Hop, RoutingCounts, SharedRouting, Table};
use super::side::{Kind, Parcel, Side};
use super::unpack::BundleRange;

/// How much one link may have to be told of who is reached: more than there are ranks in a few jobs.
const ANNOUNCEMENTS_MAX: usize = 1 << 18;

/// What one worker packs for one next hop.
pub(super) struct Hopper {
    pub(super) job: JobKey,
    pub(super) hop: Hop,
    pub(super) packing: Packing,
    /// What lies ready for it, until it takes more.
    pub(super) waiting: VecDeque<BundleRange>,
}

/// What one worker of an agent does about messages.
pub struct RoutingWorker {
    pub(super) index: usize,
    pub(super) shared: Arc<SharedRouting>,
    version: u64,
    pub(super) table: Arc<Table>,
    /// In order, so that a simulated agent does the same again.
    pub(super) sides: BTreeMap<LinkId, Side>,
    pub(super) hoppers: BTreeMap<u64, Hopper>,
    /// Which hopper leads to a link for a job.
    pub(super) by_hop: HashMap<(JobKey, LinkId), u64>,
    pub(super) next_hopper: u64,
    /// The hoppers whose parcels are open.
    pub(super) open: Vec<u64>,
    pub(super) buffers: ParcelBuffers,
    /// Goes up whenever there may be room that was not there before.
    pub(super) freed: u64,
    pub(super) backlog: Backlog,
    /// Who was refused and is to be told why.
    pub(super) refusals: BTreeMap<LinkId, String>,
    /// Links that are to be closed, and why: the peer takes another path as soon as it knows.
    pub(super) given_up: BTreeMap<LinkId, String>,
    pub(super) errands: Vec<Vec<Errand>>,
    pub(super) counts: RoutingCounts,
    pub(super) publish_at: Option<Time>,
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
            buffers: ParcelBuffers::new(shared.buffers(index)),
            freed: 0,
            backlog: Backlog::default(),
            refusals: BTreeMap::new(),
            given_up: BTreeMap::new(),
            errands: (0..shared.config().workers).map(|_| Vec::new()).collect(),
            counts: RoutingCounts::default(),
            publish_at: None,
            shared,
        }
    }

    /// Whether a link is one for messages.
    pub fn has(&self, link: LinkId) -> bool {
        self.sides.contains_key(&link)
    }

    /// How many runs and parcels it has that are not known to have arrived.
    pub fn kept(&self) -> usize {
        self.buffers.used() + self.backlog.len()
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
            Ok(AccessOutcome::Opened(region)) => rank.region = Some(*region),
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
    pub(super) fn give_up(&mut self, link: LinkId, why: String) {
        self.shared.host.warn(&format!("a link for messages is given up: {why}"));
        self.given_up.insert(link, why);
    }

    /// Forgets who is at the other end of a link, and tells everybody.
    pub(super) fn detach(&mut self, link: LinkId) {
        let Some(side) = self.sides.remove(&link) else { return };
        if let Kind::Rank(_) = side.kind {
            self.shared.host.detached();
        }
        side.parcels.into_iter().for_each(|parcel| self.give_back(&parcel, true));
        side.under_way.into_values().for_each(|sent| self.give_back(&sent.parcel, sent.is_read));
        self.shared.lose(link);
    }

    /// A parcel is not on its way any more; its buffer may have been given back before.
    pub(super) fn give_back(&mut self, parcel: &Parcel, has_buffer: bool) {
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

    /// Has a peer told whom this agent reaches.
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
        // Also when its last link is gone: what it has packed is for links of other workers, and so are buffers that it gives back.
        let mut moved = self.unblock(now);
        moved |= self.close_due(now);
        self.run_errands();
        moved
    }

    /// Gives other workers what is for them.
    pub(super) fn run_errands(&mut self) {
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
            let waiting = hopper.waiting.drain(..).map(|range| range.buffer());
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
            self.shared.host.count(std::mem::take(&mut self.counts));
        }
    }
}
