//! What a memory server does with its links.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use outboard_driver::{LinkId, Origin, Outbox, Service};
use outboard_link::{Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_wire::Time;
use outboard_wire::control::{ControlAnswer, Question};

use crate::counts::Counts;
use crate::echo::echo;
use crate::status::{Gauge, StatusPage};
use crate::store::RegionStore;

/// What the workers of a memory server share. Locked for questions, never for one-sided access.
pub(crate) struct SharedStore {
    store: Mutex<RegionStore>,
    used_bytes: Gauge,
    regions: Gauge,
}

impl SharedStore {
    pub(crate) fn new(store: RegionStore, page: &StatusPage) -> Self {
        page.gauge("capacity_bytes").set(store.capacity());
        Self {
            store: Mutex::new(store),
            used_bytes: page.gauge("used_bytes"),
            regions: page.gauge("regions"),
        }
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut RegionStore) -> T) -> T {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let result = use_it(&mut store);
        self.used_bytes.set(store.used());
        self.regions.set(store.count() as u64);
        result
    }
}

/// What one worker of a memory server does.
pub(crate) struct MemoryService {
    store: Arc<SharedStore>,
    counts: Arc<Counts>,
    outbox: Outbox,
    peers: HashMap<LinkId, Peer>,
}

impl MemoryService {
    pub(crate) fn new(store: Arc<SharedStore>, counts: Arc<Counts>) -> Self {
        Self { store, counts, outbox: Outbox::default(), peers: HashMap::new() }
    }
}

impl Service for MemoryService {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _origin: Origin, _now: Time) {
        tracing::debug!("{peer} has come");
        self.counts.came();
        self.peers.insert(link, peer.clone());
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        if !Question::is_question(frame.head.kind) {
            return echo(&mut self.outbox, &self.counts, link, frame);
        }
        let Some(peer) = self.peers.get(&link) else { return Disposition::Taken };
        let pid = peer.intro().pid;
        self.counts.questions_total.add(1);
        let answer = match Question::decode(frame.head.kind, &frame.payload.to_vec()) {
            Ok(question) => self.store.with(|store| store.answer(link.0, pid, &question)),
            Err(error) => crate::echo::not_understood(&error),
        };
        if let ControlAnswer::Failed { .. } = answer {
            self.counts.questions_refused_total.add(1);
        }
        self.outbox.answer(link, frame.head.tag, &answer);
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
        if by_its_own_will {
            tracing::debug!(released_bytes = released, "{error}");
        } else {
            tracing::info!(released_bytes = released, "{error}");
        }
        self.counts.went(by_its_own_will);
        self.outbox.forget(link);
        self.peers.remove(&link);
    }
}
