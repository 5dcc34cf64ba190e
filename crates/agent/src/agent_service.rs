//! What an agent does with its links.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outboard_driver::{LinkId, Origin, Outbox, Service, WorkerHandle};
use outboard_link::{Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_rendezvous::{Addressed, Rendezvous};
use outboard_wire::control::{ControlAnswer, Failure, Question};
use outboard_wire::{Incarnation, Role, Time};

use crate::counts::Counts;
use crate::echo::{echo, not_understood};
use crate::status::{Gauge, StatusPage};

/// Later than anything that is ever due.
const NEVER_NS: u64 = u64::MAX;

/// What the workers of an agent share. Locked for questions, never for data.
pub(crate) struct SharedAgent {
    /// Which worker has a client's link, to find it when a job is complete.
    owners: Mutex<HashMap<u64, usize>>,
    rendezvous: Mutex<Rendezvous>,
    /// When the rendezvous wants to be told the time, in nanoseconds: looked at without the lock in every turn.
    rendezvous_due_ns: AtomicU64,
    /// Which life of each dialled peer was last seen, to tell a restart from a reconnection.
    lives: Mutex<HashMap<usize, Incarnation>>,
    workers: OnceLock<Vec<WorkerHandle<Addressed>>>,
    jobs: Gauge,
    memory_servers: Gauge,
    memory_servers_restarted_total: Gauge,
    peer_agents: Gauge,
}

impl SharedAgent {
    pub(crate) fn new(rendezvous: Rendezvous, page: &StatusPage) -> Self {
        Self {
            owners: Mutex::default(),
            rendezvous: Mutex::new(rendezvous),
            rendezvous_due_ns: AtomicU64::new(NEVER_NS),
            lives: Mutex::default(),
            workers: OnceLock::new(),
            jobs: page.gauge("jobs"),
            memory_servers: page.gauge("memory_servers_connected"),
            memory_servers_restarted_total: page.gauge("memory_servers_restarted_total"),
            peer_agents: page.gauge("peer_agents_connected"),
        }
    }

    /// Tells the workers of each other.
    pub(crate) fn set_workers(&self, workers: Vec<WorkerHandle<Addressed>>) {
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

    /// Whether the peer of this dial is another process than the last time.
    fn is_restarted(&self, dial: usize, peer: &Peer) -> bool {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lives.insert(dial, peer.incarnation());
        let is_restarted = before.is_some_and(|before| before != peer.incarnation());
        if is_restarted && peer.intro().role == Role::MemoryServer {
            self.memory_servers_restarted_total.add(1);
        }
        is_restarted
    }

    /// Sends answers to the workers whose clients they are for.
    fn deliver(&self, answers: Vec<Addressed>) {
        let owners = self.owners();
        for answer in answers {
            let worker = owners.get(&answer.client).and_then(|index| self.workers.get()?.get(*index));
            if let Some(worker) = worker {
                worker.tell(answer);
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
    peers: HashMap<LinkId, (Peer, Origin)>,
}

impl AgentService {
    pub(crate) fn new(index: usize, shared: Arc<SharedAgent>, counts: Arc<Counts>) -> Self {
        Self { index, shared, counts, outbox: Outbox::default(), peers: HashMap::new() }
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
            | Question::OpenNamed { .. }
            | Question::Load { .. }
            | Question::Free { .. }
            | Question::Release { .. }
            | Question::Sync { .. }
            | Question::List { .. } => {
                self.counts.questions_refused_total.add(1);
                let detail = "an agent owns no regions; ask a memory server (--server ADDRESS)";
                self.outbox.answer(link, tag, &ControlAnswer::failed(Failure::NotServed, detail));
            }
        }
    }
}

impl Service for AgentService {
    type Note = Addressed;

    fn on_note(&mut self, note: Addressed, _now: Time) {
        let link = LinkId(note.client);
        if self.peers.contains_key(&link) {
            self.outbox.answer(link, note.tag, &note.answer);
        }
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: Origin, _now: Time) {
        if let Origin::Dialled(dial) = origin {
            tracing::info!("connected to {peer}");
            if let Some(gauge) = self.shared.gauge_of(peer.intro().role) {
                gauge.add(1);
            }
            if self.shared.is_restarted(dial, peer) {
                tracing::warn!("{peer} was restarted: what it held before is gone");
            }
        } else {
            tracing::debug!("{peer} has come");
            self.counts.came(peer);
        }
        self.shared.owners().insert(link.0, self.index);
        self.peers.insert(link, (peer.clone(), origin));
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
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
        _now: Time,
    ) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, _now: Time) {
        let by_its_own_will = matches!(error.loss, Loss::Closed { .. });
        match self.peers.remove(&link) {
            Some((peer, Origin::Dialled(_))) => {
                tracing::warn!("{error}; dialling again");
                if let Some(gauge) = self.shared.gauge_of(peer.intro().role) {
                    gauge.add(u64::MAX);
                }
            }
            Some((peer, Origin::Accepted)) => {
                tracing::debug!("{error}");
                self.counts.went(&peer, by_its_own_will);
            }
            None => {}
        }
        self.shared.owners().remove(&link.0);
        self.shared.with_rendezvous(|rendezvous| rendezvous.on_gone(link.0));
        self.outbox.forget(link);
    }

    fn next_deadline(&self) -> Option<Time> {
        // Every worker keeps the time: the one that has received a rank sleeps no longer than the rank may wait.
        match self.shared.rendezvous_due_ns.load(Ordering::Relaxed) {
            NEVER_NS => None,
            due_ns => Some(Time::from_nanos(due_ns)),
        }
    }

    fn on_time(&mut self, now: Time) {
        let answers = self.shared.with_rendezvous(|rendezvous| rendezvous.on_time(now));
        self.shared.deliver(answers);
    }
}
