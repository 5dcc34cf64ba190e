//! The memory server: regions, and its workers that drain what was unloaded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::memory::{Segment, Window};
use outboard_link::{Disposition, Export, Exports, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::access::AccessStatus;
use outboard_wire::{Grant, Incarnation, RegionId, Time};
use outboard_writing::{DrainingWorker, Presented, Sessions};

use super::books::Books;
use super::layout::{REGIONS, SHED, WORDS, WRITERS_MAX, grant};
use crate::Boot;

/// How a server is built.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// How many threads it has, which share the writers.
    pub(super) workers: usize,
    /// How many writers it knows: so few that it forgets some.
    pub(super) writers: usize,
}

/// Serves regions as memory servers do, its workers taking turns in one node.
pub(super) struct Server {
    incarnation: Incarnation,
    exports: Arc<Exports>,
    regions: BTreeMap<RegionId, (Grant, Arc<Segment>)>,
    workers: Vec<DrainingWorker>,
    /// Which worker has a link.
    owners: BTreeMap<LinkId, usize>,
    next_owner: usize,
    outbox: Outbox,
    books: Books,
    shed_at: Option<Time>,
}

impl Server {
    pub(super) fn new(mut boot: Boot, books: Books, shape: Shape) -> Self {
        let mut regions = BTreeMap::new();
        for (writer, region) in (0..WRITERS_MAX).flat_map(|writer| (0..REGIONS).map(move |r| (writer, r))) {
            let grant = grant(writer, region);
            // Without some pages of memory there is nothing to simulate.
            let memory = Segment::create(c"outboard-sim", WORDS * 8).expect("some pages of memory");
            let memory = Arc::new(memory);
            let keys = vec![(grant.key, grant.rights)];
            let (id, generation) = (grant.region, grant.generation);
            boot.exports.add(Export { region: id, generation, memory: Arc::clone(&memory), keys });
            books.own(boot.incarnation, (writer, region), Arc::clone(&memory));
            regions.insert(id, (grant, memory));
        }
        let sessions = Arc::new(Sessions::new(shape.writers));
        let shed_at = boot.now + Duration::from_millis(boot.random.u64(10..400));
        Self {
            incarnation: boot.incarnation,
            exports: boot.exports,
            regions,
            workers: (0..shape.workers).map(|_| DrainingWorker::new(Arc::clone(&sessions))).collect(),
            owners: BTreeMap::new(),
            next_owner: 0,
            outbox: Outbox::default(),
            books,
            shed_at: Some(shed_at),
        }
    }
}

/// Writes what was unloaded, with the refusals of the one-sided path.
fn write(
    regions: &BTreeMap<RegionId, (Grant, Arc<Segment>)>,
    to: &Presented,
    offset: u64,
    bytes: Window<'_>,
) -> AccessStatus {
    match regions.get(&to.region) {
        Some((grant, memory)) if grant.key == to.key && grant.generation == to.generation => {
            if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > grant.size) {
                return AccessStatus::OutOfBounds;
            }
            memory.window_mut(offset as usize, bytes.len()).write_window(0, bytes);
            AccessStatus::Done
        }
        _ => AccessStatus::NotOpen,
    }
}

impl Service for Server {
    type Note = ();

    fn on_open(&mut self, link: LinkId, _: &Peer, _: LinkOrigin, _: Time) {
        self.owners.insert(link, self.next_owner % self.workers.len());
        self.next_owner += 1;
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        if let Some(owner) = self.owners.get(&link) {
            let regions = &self.regions;
            let write = |to: &Presented, offset, bytes: Window<'_>| write(regions, to, offset, bytes);
            // A frame that was refused is answered too.
            let _ = self.workers[*owner].on_frame(link, &frame, &mut self.outbox, write);
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.books.look(self.incarnation);
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.books.look(self.incarnation);
        self.outbox.forget(link);
        if let Some(owner) = self.owners.remove(&link) {
            self.workers[owner].on_lost(link);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.shed_at
    }

    fn on_time(&mut self, now: Time) {
        if self.shed_at.take_if(|at| *at <= now).is_some() {
            for writer in 0..WRITERS_MAX {
                let region = grant(writer, SHED).region;
                self.exports.remove(region);
                self.regions.remove(&region);
            }
        }
    }
}
