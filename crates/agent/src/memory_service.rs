//! What a memory server does with its links.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outboard_driver::{LinkId, Origin, Outbox, Service, WorkerHandle};
use outboard_link::{Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_wire::control::{ControlAnswer, Failure, Question};
use outboard_wire::{Rights, Time};

use crate::counts::Counts;
use crate::echo::echo;
use crate::files::{DataDirectory, FileError, fill};
use crate::status::{Gauge, StatusPage};
use crate::store::{No, RegionStore};

/// What the workers of a memory server share. Locked for questions, never for one-sided access.
pub(crate) struct SharedStore {
    store: Mutex<RegionStore>,
    directory: Option<DataDirectory>,
    loads: Arc<AtomicUsize>,
    workers: OnceLock<Vec<WorkerHandle<Loaded>>>,
    used_bytes: Gauge,
    regions: Gauge,
}

impl SharedStore {
    pub(crate) fn new(store: RegionStore, directory: Option<DataDirectory>, page: &StatusPage) -> Self {
        page.gauge("capacity_bytes").set(store.capacity());
        Self {
            store: Mutex::new(store),
            directory,
            loads: Arc::default(),
            workers: OnceLock::new(),
            used_bytes: page.gauge("used_bytes"),
            regions: page.gauge("regions"),
        }
    }

    /// Tells where the news of loaded files go.
    pub(crate) fn set_workers(&self, workers: Vec<WorkerHandle<Loaded>>) {
        // Set once, before any link is given out.
        let _ = self.workers.set(workers);
    }

    /// A turn to read a file, if not too many have one.
    fn take_turn(&self) -> Result<Turn, No> {
        let turn = Turn(Arc::clone(&self.loads));
        if turn.0.fetch_add(1, Ordering::AcqRel) < LOADS_MAX {
            return Ok(turn);
        }
        let detail = format!("{LOADS_MAX} files are being loaded; ask again when one is done");
        Err((Failure::NoCapacity, detail))
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut RegionStore) -> T) -> T {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let result = use_it(&mut store);
        self.used_bytes.set(store.used());
        self.regions.set(store.count() as u64);
        result
    }
}

/// The end of a load, from the thread that read the file.
pub(crate) struct Loaded {
    link: LinkId,
    tag: u32,
    answer: ControlAnswer,
}

/// One of the few files that are read at once; its end makes room for another.
struct Turn(Arc<AtomicUsize>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How many files are read at once; more are refused until one is done.
const LOADS_MAX: usize = 4;

/// What one worker of a memory server does.
pub(crate) struct MemoryService {
    index: usize,
    store: Arc<SharedStore>,
    counts: Arc<Counts>,
    outbox: Outbox,
    peers: HashMap<LinkId, Peer>,
}

impl MemoryService {
    pub(crate) fn new(index: usize, store: Arc<SharedStore>, counts: Arc<Counts>) -> Self {
        Self { index, store, counts, outbox: Outbox::default(), peers: HashMap::new() }
    }

    /// The answer to a question, unless it takes a while and comes as a note.
    fn answer(&self, link: LinkId, tag: u32, question: &Question) -> Option<ControlAnswer> {
        let pid = self.peers.get(&link)?.intro().pid;
        match question {
            Question::Load { path, rights } => self
                .load(Asker { link, tag, pid }, path.as_str(), *rights)
                .unwrap_or_else(|(failure, detail)| Some(ControlAnswer::failed(failure, &detail))),
            other => Some(self.store.with(|store| store.answer(link.0, pid, other))),
        }
    }

    /// The region of a file that is loaded already; any other is read by a thread of its own first.
    fn load(&self, asker: Asker, path: &str, rights: Rights) -> Result<Option<ControlAnswer>, No> {
        let worker = self.store.workers.get().and_then(|workers| workers.get(self.index)).cloned();
        let worker = worker.ok_or((Failure::NotServed, "the server is starting; ask again".to_owned()))?;
        if let Some(there) = self.store.with(|store| store.loaded(path, rights)) {
            return Ok(Some(there));
        }
        let no = |error: FileError| (Failure::NoSuchFile, error.to_string());
        let directory = self.store.directory.as_ref().ok_or(FileError::NoDirectory).map_err(no)?;
        let (file, size) = directory.file(path).map_err(no)?;
        let turn = self.store.take_turn()?;
        let plan = self.store.with(|store| store.begin_load(path, size))?;
        let store = Arc::clone(&self.store);
        let plan = Arc::new(Mutex::new(Some(plan)));
        let handed = Arc::clone(&plan);
        let read_file = move || {
            let Some(plan) = handed.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
            let read = fill(plan.memory(), file, plan.size());
            let answer = store.with(|store| store.finish_load((asker.link.0, asker.pid), plan, rights, read));
            drop(turn);
            worker.tell(Loaded { link: asker.link, tag: asker.tag, answer });
        };
        if let Err(error) = std::thread::Builder::new().name("load".to_owned()).spawn(read_file) {
            let plan = plan.lock().unwrap_or_else(PoisonError::into_inner).take();
            return Ok(plan.map(|plan| {
                let client = (asker.link.0, asker.pid);
                self.store.with(|store| store.finish_load(client, plan, rights, Err(error)))
            }));
        }
        Ok(None)
    }

    fn reply(&mut self, link: LinkId, tag: u32, answer: &ControlAnswer) {
        if let ControlAnswer::Failed { .. } = answer {
            self.counts.questions_refused_total.add(1);
        }
        self.outbox.answer(link, tag, answer);
    }
}

/// Who asked for a file.
#[derive(Clone, Copy)]
struct Asker {
    link: LinkId,
    tag: u32,
    pid: u32,
}

impl Service for MemoryService {
    type Note = Loaded;

    fn on_note(&mut self, note: Loaded, _now: Time) {
        // Whoever has gone meanwhile left the file to those who ask for it next.
        if self.peers.contains_key(&note.link) {
            self.reply(note.link, note.tag, &note.answer);
        }
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, _origin: Origin, _now: Time) {
        tracing::debug!("{peer} has come");
        self.counts.came(peer);
        self.peers.insert(link, peer.clone());
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        if !Question::is_question(frame.head.kind) {
            return echo(&mut self.outbox, &self.counts, link, frame);
        }
        self.counts.questions_total.add(1);
        let tag = frame.head.tag;
        let answer = match Question::decode(frame.head.kind, &frame.payload.to_vec()) {
            Ok(question) => self.answer(link, tag, &question),
            Err(error) => Some(crate::echo::not_understood(&error)),
        };
        if let Some(answer) = answer {
            self.reply(link, tag, &answer);
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
        let released = self.store.with(|store| store.client_gone(link.0));
        tracing::debug!(released_bytes = released, "{error}");
        if !by_its_own_will && let Some(unsaid) = self.counts.losses.say() {
            tracing::info!(unsaid, "{error}");
        }
        self.outbox.forget(link);
        if let Some(peer) = self.peers.remove(&link) {
            self.counts.went(&peer, by_its_own_will);
        }
    }
}
