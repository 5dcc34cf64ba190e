//! What an agent does with its links.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outboard_calling::AgentDesk;
use outboard_driver::calling::draw_caller;
use outboard_driver::{LinkId, LinkOrigin, Outbox, Service, WorkerHandle};
use outboard_link::memory::Buffer;
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_paging::agent::{PagingWorker, STAGE_LEN, SharedPaging};
use outboard_paging::is_paging;
use outboard_rendezvous::{Addressed, Rendezvous};
use outboard_routing::{RoutingWorker, SharedRouting};
use outboard_settings::CallingSettings;
use outboard_wire::calling::is_calling;
use outboard_wire::control::{ControlAnswer, ControlFailure, Question};
use outboard_wire::{Incarnation, Role, StoreId, Time};
use outboard_writing::Relay;

use crate::calling::{SharedCalling, ambient};
use crate::counts::Counts;
use crate::echo::{echo, not_understood};
use crate::memory_service::is_writing;
use crate::paging::Numbers;
use crate::routing::is_routing;
use crate::status::{Gauge, StatusPage};
use crate::writing::RelayGauges;

/// Later than anything that is ever due.
const NEVER_NS: u64 = u64::MAX;

/// What is told to a worker of an agent.
pub(crate) enum AgentNote {
    /// An answer for one of its clients.
    Answer(Box<Addressed>),
    /// Another worker has something for one of its paging requests.
    Paging,
    /// Another worker has something to do for messages.
    Routing,
}

/// A peer that is dialled.
#[derive(Default)]
struct DialledPeer {
    /// Which life of it was last seen, to tell a restart from a reconnection.
    life: Option<Incarnation>,
    /// To which life each link leads: those to a former one may not have been missed yet.
    links: Vec<Incarnation>,
    /// Whether all links to this life have been there at once, and not all of them have gone since.
    is_connected: bool,
}

impl DialledPeer {
    /// How many links lead to the life that was last seen.
    fn links_to_life(&self) -> usize {
        self.links.iter().filter(|life| Some(**life) == self.life).count()
    }

    /// Whether it is connected, of `links_wanted`: until all are there, some worker cannot do anything about it yet.
    fn look(&mut self, gauge: Option<&Gauge>, links_wanted: usize) {
        let links = self.links_to_life();
        let is_connected = links >= links_wanted || self.is_connected && links > 0;
        let was_connected = std::mem::replace(&mut self.is_connected, is_connected);
        match (was_connected, is_connected) {
            (false, true) => gauge.inspect(|gauge| gauge.add(1)),
            (true, false) => gauge.inspect(|gauge| gauge.add(u64::MAX)),
            _ => None,
        };
    }
}

/// What the workers of an agent share. Locked for questions, never for data.
pub(crate) struct SharedAgent {
    /// Which worker has a client's link, to find it when a job is complete.
    owners: Mutex<HashMap<u64, usize>>,
    rendezvous: Mutex<Rendezvous>,
    /// When the rendezvous wants to be told the time, in nanoseconds: looked at without the lock in every turn.
    rendezvous_due_ns: AtomicU64,
    /// The peers that are dialled, by their number; several links may lead to one.
    peers: Mutex<HashMap<usize, DialledPeer>>,
    workers: OnceLock<Vec<WorkerHandle<AgentNote>>>,
    jobs: Gauge,
    memory_servers: Gauge,
    memory_servers_restarted_total: Gauge,
    peer_agents: Gauge,
    relay: Arc<RelayGauges>,
    calling: SharedCalling,
}

impl SharedAgent {
    pub(crate) fn new(rendezvous: Rendezvous, page: &StatusPage, calling: &CallingSettings) -> Self {
        Self {
            owners: Mutex::default(),
            rendezvous: Mutex::new(rendezvous),
            rendezvous_due_ns: AtomicU64::new(NEVER_NS),
            peers: Mutex::default(),
            workers: OnceLock::new(),
            jobs: page.gauge("jobs"),
            memory_servers: page.gauge("memory_servers_connected"),
            memory_servers_restarted_total: page.gauge("memory_servers_restarted_total"),
            peer_agents: page.gauge("peer_agents_connected"),
            relay: RelayGauges::new(page),
            calling: SharedCalling::new(page, calling),
        }
    }

    /// Tells the workers of each other.
    pub(crate) fn set_workers(&self, workers: Vec<WorkerHandle<AgentNote>>) {
        // Set once, before any link is given out.
        let _ = self.workers.set(workers);
    }

    fn with_rendezvous<T>(&self, use_it: impl FnOnce(&mut Rendezvous) -> T) -> T {
        let mut rendezvous = self.rendezvous.lock().unwrap_or_else(PoisonError::into_inner);
        let result = use_it(&mut rendezvous);
        self.jobs.set(rendezvous.count() as u64);
        let due_ns = rendezvous.next_deadline().map_or(NEVER_NS, Time::as_nanos);
        self.rendezvous_due_ns.store(due_ns, Ordering::Relaxed);
        result
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, HashMap<u64, usize>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a worker look for what others have for its paging requests.
    pub(crate) fn wake(&self, worker: usize) {
        if let Some(worker) = self.workers.get().and_then(|workers| workers.get(worker)) {
            worker.tell(AgentNote::Paging);
        }
    }

    /// Has a worker look for what others want it to do for messages.
    pub(crate) fn wake_for_messages(&self, worker: usize) {
        if let Some(worker) = self.workers.get().and_then(|workers| workers.get(worker)) {
            worker.tell(AgentNote::Routing);
        }
    }

    /// A link to a dialled peer is open, one of `links_wanted`. Returns which life of it was seen before, if that was
    /// another, and whether this is the only link to it.
    fn reached(&self, number: usize, links_wanted: usize, peer: &Peer) -> (Option<Incarnation>, bool) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let dialled = peers.entry(number).or_default();
        let gauge = self.gauge_of(peer.intro().role);
        let before = dialled.life.replace(peer.incarnation());
        let before = before.filter(|before| *before != peer.incarnation());
        if before.is_some() {
            // What was true of the former life is not told of this one.
            dialled.look(gauge, usize::MAX);
        }
        dialled.links.push(peer.incarnation());
        dialled.look(gauge, links_wanted);
        if before.is_some() && peer.intro().role == Role::MemoryServer {
            self.memory_servers_restarted_total.add(1);
        }
        (before, dialled.links_to_life() == 1)
    }

    /// A link to a dialled peer is gone. Returns whether it was the last.
    fn missed(&self, number: usize, peer: &Peer) -> bool {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let dialled = peers.entry(number).or_default();
        if let Some(index) = dialled.links.iter().position(|life| *life == peer.incarnation()) {
            dialled.links.swap_remove(index);
        }
        dialled.look(self.gauge_of(peer.intro().role), usize::MAX);
        dialled.links.is_empty()
    }

    /// Sends answers to the workers whose clients they are for.
    fn deliver(&self, answers: Vec<Addressed>) {
        let owners = self.owners();
        for answer in answers {
            let worker = owners.get(&answer.client).and_then(|index| self.workers.get()?.get(*index));
            if let Some(worker) = worker {
                worker.tell(AgentNote::Answer(Box::new(answer)));
            }
        }
    }

    fn gauge_of(&self, role: Role) -> Option<&Gauge> {
        match role {
            Role::MemoryServer => Some(&self.memory_servers),
            Role::Agent => Some(&self.peer_agents),
            Role::Application | Role::Tool => None,
        }
    }
}

/// What one worker of an agent does.
pub(crate) struct AgentService {
    index: usize,
    shared: Arc<SharedAgent>,
    counts: Arc<Counts>,
    outbox: Outbox,
    peers: HashMap<LinkId, (Peer, LinkOrigin)>,
    paging: PagingWorker,
    shared_paging: Arc<SharedPaging>,
    /// Where the numbers of paging are shown.
    numbers: Arc<Numbers>,
    routing: RoutingWorker,
    writing: Relay,
    calling: AgentDesk,
    /// The number of the peer that each dial leads to.
    dialled: Arc<[usize]>,
}

impl AgentService {
    /// `dialled` says which peer each dial leads to.
    pub(crate) fn new(
        index: usize,
        shared: Arc<SharedAgent>,
        counts: Arc<Counts>,
        ((paging, numbers), routing): ((Arc<SharedPaging>, Arc<Numbers>), Arc<SharedRouting>),
        dialled: Arc<[usize]>,
    ) -> Self {
        Self {
            index,
            writing: Relay::default(),
            calling: AgentDesk::new(Arc::clone(&shared.calling.calls), shared.calling.config),
            shared,
            counts,
            outbox: Outbox::default(),
            peers: HashMap::new(),
            paging: PagingWorker::new(index, Arc::clone(&paging)),
            shared_paging: paging,
            numbers,
            routing: RoutingWorker::new(index, routing),
            dialled,
        }
    }

    fn ask(&mut self, link: LinkId, tag: u32, question: Question, now: Time) {
        match question {
            Question::Join { job, secret, size, member } => {
                let answers = self.shared.with_rendezvous(|rendezvous| {
                    rendezvous.on_join(now, (link.0, tag), (job, secret, size), member)
                });
                self.shared.deliver(answers);
            }
            Question::Reserve { .. }
            | Question::ReserveSparse { .. }
            | Question::NextWritten { .. }
            | Question::OpenNamed { .. }
            | Question::Load { .. }
            | Question::Free { .. }
            | Question::Release { .. }
            | Question::Sync { .. }
            | Question::Populate { .. }
            | Question::List { .. } => {
                self.counts.questions_refused_total.add(1);
                let detail = "an agent owns no regions; ask a memory server (--server ADDRESS)";
                self.outbox.answer(link, tag, &ControlAnswer::failed(ControlFailure::NotServed, detail));
            }
        }
    }
}

impl Service for AgentService {
    type Note = AgentNote;

    fn on_note(&mut self, note: AgentNote, _now: Time) {
        match note {
            AgentNote::Answer(note) => {
                let link = LinkId(note.client);
                if self.peers.contains_key(&link) {
                    self.outbox.answer(link, note.tag, &note.answer);
                }
            }
            AgentNote::Paging => self.paging.on_delivery(),
            AgentNote::Routing => self.routing.on_delivery(),
        }
    }

    fn on_turn(&mut self, now: Time) -> bool {
        self.routing.on_turn(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _now: Time) {
        self.routing.on_open(link, peer);
        if let LinkOrigin::Dialled(dial) = origin {
            let number = self.dialled[dial];
            let links_wanted = self.dialled.iter().filter(|dialled| **dialled == number).count();
            let (before, is_first) = self.shared.reached(number, links_wanted, peer);
            if is_first {
                tracing::info!("connected to {peer}");
            }
            if let Some(before) = before {
                match peer.store() {
                    StoreId::NONE => tracing::warn!("{peer} was restarted: what it held before is gone"),
                    _ => tracing::warn!("{peer} was restarted: what it held before without a name is gone"),
                }
                self.paging.server_restarted(before);
            }
            if peer.intro().role == Role::MemoryServer {
                match Buffer::allocate(STAGE_LEN) {
                    Ok(stage) => self.paging.on_server(link, peer, stage),
                    Err(error) => tracing::warn!("no memory to write back to {peer}: {error}"),
                }
            }
            self.writing.on_dialled(link, peer);
            self.calling.on_dialled(link, peer, (draw_caller(), ambient()), &mut self.outbox);
        } else {
            tracing::debug!("{peer} has come");
            self.counts.came(peer);
        }
        self.shared.owners().insert(link.0, self.index);
        self.peers.insert(link, (peer.clone(), origin));
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if is_routing(frame.head.kind) {
            return self.routing.on_frame(link, frame, now);
        }
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        if is_paging(frame.head.kind) {
            return self.paging.on_frame(link, frame, now);
        }
        if is_writing(frame.head.kind) {
            let disposition = self.writing.on_frame(link, &frame, &mut self.outbox);
            self.shared.relay.add(self.writing.take_counts());
            return disposition;
        }
        if is_calling(frame.head.kind) {
            return self.calling.on_frame((link, frame, now), &mut self.outbox);
        }
        if !Question::is_question(frame.head.kind) {
            return echo(&mut self.outbox, &self.counts, link, frame);
        }
        self.counts.questions_total.add(1);
        match Question::decode(frame.head.kind, &frame.payload.to_vec()) {
            Ok(question) => self.ask(link, frame.head.tag, question, now),
            Err(error) => self.outbox.answer(link, frame.head.tag, &not_understood(&error)),
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let has_called = self.calling.send(id, link, now, &mut self.outbox)?;
        self.shared.calling.counts.add(self.calling.take_counts(), &self.counts);
        Ok(has_called
            | self.outbox.send(id, link)?
            | self.paging.send(id, link, now)?
            | self.routing.send(id, link, now)?)
    }

    fn rouse(&mut self, links: &mut Vec<LinkId>) -> bool {
        self.outbox.rouse(links);
        self.paging.rouse(links);
        self.routing.rouse(links);
        self.calling.rouse(links);
        true
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        if self.routing.has(link) {
            return self.routing.on_completion(link, &completion);
        }
        if !self.calling.on_completion(link, &completion) {
            self.paging.on_completion(link, &completion, now);
        }
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        let by_its_own_will = matches!(error.loss, Loss::Closed { .. });
        match self.peers.remove(&link) {
            Some((peer, LinkOrigin::Dialled(dial))) => {
                let is_last = self.shared.missed(self.dialled[dial], &peer);
                let what_now = if is_last { "; dialling again" } else { "; other links to it are left" };
                // Agents come and go with their jobs.
                match by_its_own_will && peer.intro().role == Role::Agent {
                    true => tracing::info!("{error}{what_now}"),
                    false => tracing::warn!("{error}{what_now}"),
                }
            }
            Some((peer, LinkOrigin::Accepted)) => {
                tracing::debug!("{error}");
                self.counts.went(&peer, by_its_own_will);
            }
            None => {}
        }
        self.shared.owners().remove(&link.0);
        self.shared.with_rendezvous(|rendezvous| rendezvous.on_gone(link.0));
        self.outbox.forget(link);
        self.paging.on_lost(link, now);
        self.routing.on_lost(link);
        self.writing.on_lost(link, &mut self.outbox);
        self.shared.relay.add(self.writing.take_counts());
        self.calling.on_lost(link, &mut self.outbox);
        self.shared.calling.counts.add(self.calling.take_counts(), &self.counts);
    }

    fn next_deadline(&self) -> Option<Time> {
        // Every worker keeps the time: the one that has received a rank sleeps no longer than the rank may wait.
        let rendezvous = match self.shared.rendezvous_due_ns.load(Ordering::Relaxed) {
            NEVER_NS => None,
            due_ns => Some(Time::from_nanos(due_ns)),
        };
        let rooms = self.paging.next_deadline().into_iter().chain(self.routing.next_deadline());
        rendezvous.into_iter().chain(rooms).min()
    }

    fn on_time(&mut self, now: Time) {
        if self.paging.on_time(now) {
            self.numbers.show(&self.shared_paging.report(now));
        }
        self.routing.on_time(now);
        if self.shared.rendezvous_due_ns.load(Ordering::Relaxed) <= now.as_nanos() {
            let answers = self.shared.with_rendezvous(|rendezvous| rendezvous.on_time(now));
            self.shared.deliver(answers);
        }
    }
}
