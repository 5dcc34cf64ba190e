//! What a memory server does with its links.

mod calling;
mod file_work;
mod gates;
mod paging;
mod served;
mod steering;
mod writing;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outboard_driver::{LinkId, LinkOrigin, Outbox, Service, WorkerHandle};
use outboard_link::{Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_settings::CallingSettings;
use outboard_wire::Time;
use outboard_wire::calling::is_calling;
use outboard_wire::control::{ControlAnswer, ControlFailure, Question};
use outboard_wire::paging::PagingRequest;
use outboard_writing::{DrainingWorker, Sessions};

use crate::calling::SharedCalling;
use crate::counts::Counts;
use crate::echo::echo;
use crate::files::DataDirectory;
use crate::keep::started_at;
use crate::room::Room;
use crate::status::{Gauge, StatusPage};
use crate::store::{Capacity, Parting, RegionStore, is_on_this_machine};
use calling::Calling;
use file_work::{Asker, FileDone, Turns};
use gates::Gates;
use paging::WriteBackGauges;
use served::{Served, ServedCount};
use steering::Steering;
use writing::{UnloadedGauges, WRITERS_MAX};

pub(crate) use writing::is_writing;

/// What other threads tell a worker.
pub(crate) enum MemoryNote {
    /// A file was read or written.
    File(Box<FileDone>),
    /// Slots were moved.
    Table,
}

/// What the workers of a memory server share. Locked for questions, never for one-sided access.
pub(crate) struct SharedStore {
    store: Mutex<RegionStore>,
    directory: Option<DataDirectory>,
    turns: Turns,
    room: Arc<Room>,
    workers: OnceLock<Vec<WorkerHandle<MemoryNote>>>,
    /// When the store is next due, so that no worker waits for the lock to know.
    due: AtomicU64,
    capacity: Arc<Capacity>,
    used_bytes: Gauge,
    regions: Gauge,
    clients_awaited: Gauge,
    served: ServedCount,
    /// The links of each worker.
    links: Vec<Gauge>,
    write_backs: WriteBackGauges,
    writers: Arc<Sessions>,
    unloaded: UnloadedGauges,
    calling: SharedCalling,
    steering: Steering,
}

impl SharedStore {
    pub(crate) fn new(
        store: RegionStore,
        directory: Option<DataDirectory>,
        (page, workers): (&StatusPage, usize),
        calling: &CallingSettings,
    ) -> Self {
        page.gauge("capacity_bytes").set(store.capacity());
        Self {
            capacity: store.shared_capacity(),
            store: Mutex::new(store),
            directory,
            turns: Turns::default(),
            room: Arc::default(),
            workers: OnceLock::new(),
            due: AtomicU64::new(Time::MAX.as_nanos()),
            used_bytes: page.gauge("used_bytes"),
            regions: page.gauge("regions"),
            clients_awaited: page.gauge("clients_awaited"),
            served: ServedCount::new(page),
            links: (0..workers).map(|worker| page.gauge(&format!("links_of_worker_{worker}"))).collect(),
            write_backs: WriteBackGauges::new(page),
            writers: Arc::new(Sessions::new(WRITERS_MAX)),
            unloaded: UnloadedGauges::new(page),
            calling: SharedCalling::new(page, calling),
            steering: Steering::new(page),
        }
    }

    /// Tells where the news of files go.
    pub(crate) fn set_workers(&self, workers: Vec<WorkerHandle<MemoryNote>>) {
        // Set once, before any link is given out.
        let _ = self.workers.set(workers);
    }

    /// The server is ending: what is kept stays as it is.
    pub(crate) fn rest(&self) {
        self.with(RegionStore::rest);
    }

    /// Sparse regions take of the capacity as they are written, without the store.
    fn show_used(&self) {
        self.used_bytes.set(self.capacity.used());
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut RegionStore) -> T) -> T {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let result = use_it(&mut store);
        self.show_used();
        self.regions.set(store.count() as u64);
        self.clients_awaited.set(store.awaited() as u64);
        self.due.store(store.next_deadline().unwrap_or(Time::MAX).as_nanos(), Ordering::Release);
        result
    }
}

/// What one worker of a memory server does.
pub(crate) struct MemoryService {
    index: usize,
    store: Arc<SharedStore>,
    counts: Arc<Counts>,
    outbox: Outbox,
    peers: HashMap<LinkId, Peer>,
    gates: Gates,
    draining: DrainingWorker,
    calling: Calling,
    served: Served,
}

impl MemoryService {
    pub(crate) fn new(index: usize, store: Arc<SharedStore>, counts: Arc<Counts>) -> Self {
        let (outbox, peers, gates) = (Outbox::default(), HashMap::new(), Gates::default());
        let (calling, served) = (Calling::new(&store), Served::default());
        let draining = DrainingWorker::new(Arc::clone(&store.writers));
        Self { index, store, counts, outbox, peers, gates, draining, calling, served }
    }

    /// The answer to a question, unless it takes a while and comes as a note.
    fn answer(&self, link: LinkId, tag: u32, question: &Question, now: Time) -> Option<ControlAnswer> {
        let asker = Asker { link, tag, process: self.peers.get(&link)?.incarnation() };
        let answer = match *question {
            Question::Load { path, rights, sharing } => self.load(asker, path.as_str(), (rights, sharing)),
            Question::Sync { region, generation, key } => self.sync(asker, region, generation, &key),
            Question::Populate { region, generation, key } => self.populate(asker, region, generation, &key),
            _ => Ok(Some(self.store.with(|store| store.answer(now, asker.process, question)))),
        };
        answer.unwrap_or_else(|(failure, detail)| Some(ControlAnswer::failed(failure, &detail)))
    }

    fn show_links(&self) {
        if let Some(gauge) = self.store.links.get(self.index) {
            gauge.set(self.peers.len() as u64);
        }
    }

    fn reply(&mut self, link: LinkId, tag: u32, answer: &ControlAnswer) {
        if let ControlAnswer::Failed { .. } = answer {
            self.counts.questions_refused_total.add(1);
        }
        self.outbox.answer(link, tag, answer);
    }
}

impl Service for MemoryService {
    type Note = MemoryNote;

    fn on_note(&mut self, note: MemoryNote, _now: Time) {
        match note {
            MemoryNote::File(done) if self.peers.contains_key(&done.link) => {
                self.reply(done.link, done.tag, &done.answer);
            }
            MemoryNote::File(_) => {}
            MemoryNote::Table => self.calling.tell_table(&mut self.outbox),
        }
    }

    fn on_turn(&mut self, now: Time) -> bool {
        self.run_calls(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, _origin: LinkOrigin, now: Time) {
        tracing::debug!("{peer} has come");
        self.counts.came(peer);
        let shown = peer.to_string();
        let (process, pid) = (peer.incarnation(), peer.intro().pid);
        self.store.with(|store| {
            store.link_opened(now, process, pid, &shown);
            if store.keeps() && is_on_this_machine(peer.address()) {
                store.may_map(process, started_at(pid));
            }
        });
        self.peers.insert(link, peer.clone());
        self.show_links();
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        if PagingRequest::fixed_len(frame.head.kind).is_some() {
            return self.page(link, frame);
        }
        if is_calling(frame.head.kind) {
            return self.on_calling(link, frame, now);
        }
        if is_writing(frame.head.kind) {
            return self.unload(link, frame);
        }
        if !Question::is_question(frame.head.kind) {
            return echo(&mut self.outbox, &self.counts, link, frame);
        }
        self.counts.questions_total.add(1);
        let tag = frame.head.tag;
        let question = Question::decode(frame.head.kind, &frame.payload.to_vec());
        let answer = match &question {
            Ok(question) => self.answer(link, tag, question, now),
            Err(error) => Some(crate::echo::not_understood(error)),
        };
        match answer {
            // That nothing has this name is an answer; a user's typing error is no trouble of the server.
            Some(answer @ ControlAnswer::Failed { failure: ControlFailure::NoSuchRegion, .. })
                if matches!(question, Ok(Question::OpenNamed { .. })) =>
            {
                self.outbox.answer(link, tag, &answer);
            }
            Some(answer) => self.reply(link, tag, &answer),
            None => {}
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        _now: Time,
    ) -> Result<bool, LinkError> {
        self.served.look(id, link, &self.store.served);
        self.outbox.send(id, link)
    }

    fn rouse(&mut self, links: &mut Vec<LinkId>) -> bool {
        self.outbox.rouse(links);
        true
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        let by_its_own_will = matches!(error.loss, Loss::Closed { .. });
        let peer = self.peers.remove(&link);
        self.show_links();
        let released = peer.as_ref().map_or(0, |peer| {
            let process = peer.incarnation();
            self.store.with(|store| store.link_lost(now, process, Parting::of(error)))
        });
        tracing::debug!(released_bytes = released, "{error}");
        if !by_its_own_will && let Some(unsaid) = self.counts.losses.say() {
            tracing::info!(unsaid, "{error}");
        }
        self.outbox.forget(link);
        self.draining.on_lost(link);
        self.calling.on_lost(link);
        self.served.forget(link);
        if let Some(peer) = peer {
            self.counts.went(&peer, by_its_own_will);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let due = Time::from_nanos(self.store.due.load(Ordering::Acquire));
        Some(due).filter(|due| *due < Time::MAX)
    }

    fn on_time(&mut self, now: Time) {
        self.store.with(|store| store.on_time(now));
    }
}
