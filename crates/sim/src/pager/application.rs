//! The application: threads that use far memory, and the pagers of its fault threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fastrand::Rng;
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::application::{FingerprintKey, PagedRegion, Pager, PagerNote, Pages, RegionSpec, Span};
use outboard_wire::{Role, Time};

use super::chores::Chores;
use super::layout::{OBJECTS, PLANS, Shape, WORD, grant};
use super::model::{Memories, Model};
use super::space::SimSpace;
use super::walkers::Walkers;
use crate::{Boot, Recorder};

/// An object as the application has mapped it.
#[derive(Default)]
pub(super) struct Object {
    pub(super) parts: Vec<Arc<PagedRegion>>,
    /// Nobody begins to use it any more.
    pub(super) is_leaving: bool,
    /// What was not flushed is not missed.
    pub(super) is_given_up: bool,
    /// It has been flushed since it is leaving.
    pub(super) is_flushed: bool,
    /// It is being unmapped.
    pub(super) is_closing: bool,
}

/// Far memory, and what must be in it.
pub(super) struct Far {
    recorder: Recorder,
    shape: Shape,
    memories: Memories,
    pub(super) pages: Arc<Pages<SimSpace>>,
    pub(super) model: Model,
    pub(super) objects: [Object; OBJECTS],
    /// Chunks that threads want without touching them: object, part and number.
    pub(super) wanted: Vec<(usize, usize, u32)>,
}

impl Far {
    pub(super) fn space(&self) -> &SimSpace {
        self.pages.space()
    }

    pub(super) fn is_writable(&self, object: usize) -> bool {
        self.shape.is_writable[object]
    }

    /// The part and the chunk that have a word.
    pub(super) fn chunk_of(&self, object: usize, word: usize) -> (usize, u32) {
        let part = self.model.part_of(object, word);
        let stripes = self.objects[object].parts[part].spec().stripes;
        (part, stripes.chunk((word * WORD) as u64, PLANS[object].class.bytes()))
    }

    /// A promise is broken.
    pub(super) fn object_to(&self, promise: String) {
        self.recorder.fail(promise);
    }

    /// Maps an object, again if `is_anew`: then servers refuse what is still on its way from before.
    pub(super) fn map(&mut self, object: usize, is_given_up: bool) {
        let (plan, shape) = (&PLANS[object], self.shape);
        let (path, cache) = shape.paths[object];
        let mut specs = Vec::new();
        for (stripes, size) in plan.parts(shape.servers) {
            let at = shape.server_of(object, stripes.part);
            let grant = grant(object, stripes.part, size);
            let memories = self.memories.borrow();
            let Some(memory) = &memories[at] else { return };
            let region = memory.regions.get(&grant.region);
            let Some(epoch) = region.and_then(|region| region.epoch.raise()) else { return };
            specs.push(RegionSpec {
                name: format!("object {object}"),
                object: format!("object {object}"),
                grant,
                at,
                server: memory.life,
                stripes,
                epoch,
                class: plan.class,
                writable: shape.is_writable[object],
                is_kept: true,
                path,
                cache,
            });
        }
        if is_given_up {
            self.model.adopt(object);
        }
        match self.pages.map(specs) {
            Ok(parts) => self.objects[object] = Object { parts, ..Object::default() },
            Err(error) => self.recorder.fail(format!("objects can be mapped, not: {error}")),
        }
    }

    /// Begins to unmap an object.
    pub(super) fn close(&mut self, object: usize) {
        let state = &mut self.objects[object];
        state.is_closing = true;
        self.pages.begin_closing(&state.parts);
        let addresses = state.parts[0].addresses();
        let span = Span { start: addresses.start, len: addresses.len() };
        self.pages.space().state().leave(span);
    }

    /// An object has been flushed, as it was in `stored`. What went with a server is not looked for.
    pub(super) fn compare(&self, object: usize, stored: &[u64]) {
        let is_there = |part: usize| {
            let region = &self.objects[object].parts[part];
            let memories = self.memories.borrow();
            let life = memories[region.spec().at].as_ref().map(|memory| memory.life);
            !region.is_lost() && life == Some(region.spec().server)
        };
        self.model.flushed(object, stored, is_there);
    }
}

/// The application.
pub(super) struct Application {
    pub(super) recorder: Recorder,
    pub(super) random: Rng,
    shape: Shape,
    pub(super) far: Far,
    /// One for each fault thread.
    pub(super) pagers: Vec<Pager<SimSpace>>,
    /// Which of them has a link.
    owners: BTreeMap<LinkId, usize>,
    pub(super) walkers: Walkers,
    pub(super) chores: Chores,
    /// There is something to do at once.
    is_busy: bool,
}

impl Application {
    pub(super) fn new(boot: Boot, recorder: Recorder, memories: Memories, shape: Shape, until: Time) -> Self {
        let mut random = boot.random;
        let mut words = random.fork();
        let space = SimSpace::new(random.fork(), shape.busy_one_in);
        let pages = Pages::new(shape.config(), space, FingerprintKey::draw(|| words.u64(..)));
        // The shapes that are drawn are such that it has room.
        let pages = pages.expect("far memory of these settings");
        let pagers = (0..shape.lanes).map(|_| Pager::new(Arc::clone(&pages))).collect();
        let model = Model::new(recorder.clone(), Memories::clone(&memories), shape);
        let mut far = Far {
            recorder: recorder.clone(),
            shape,
            memories,
            pages,
            model,
            objects: Default::default(),
            wanted: Vec::new(),
        };
        (0..OBJECTS).for_each(|object| far.map(object, false));
        // It wants to know: a flush alone does not have a server given up that never comes back.
        far.pages.listeners.store(shape.loses_a_server.into(), Ordering::Relaxed);
        Self {
            walkers: Walkers::new(shape.walkers, random.fork(), boot.now, until),
            chores: Chores::new(boot.now, until),
            recorder,
            random,
            shape,
            far,
            pagers,
            owners: BTreeMap::new(),
            is_busy: false,
        }
    }

    /// Whether all threads have stopped, and everything that was stored has been flushed.
    pub(super) fn is_idle(&self) -> bool {
        self.walkers.are_done() && self.chores.are_done()
    }

    /// What is waited for, for people.
    pub(super) fn explain(&self) -> String {
        let (waits, tries) = (self.walkers.waiting(), self.walkers.trying());
        format!("{waits} threads wait and {tries} try, the chores are done: {}", self.chores.are_done())
    }

    /// At the end: the servers have all that was stored.
    pub(super) fn compare(&self) {
        for object in (0..OBJECTS).filter(|object| self.far.is_writable(*object)) {
            self.far.compare(object, &self.far.model.stored(object));
        }
    }

    /// What far memory has done.
    #[cfg(test)]
    pub(super) fn stats(&self) -> outboard_paging::application::PagingStats {
        self.far.pages.stats()
    }

    /// Lets threads and the kernel do what there is to do.
    fn run_threads(&mut self, now: Time) -> bool {
        let mut moved = self.walkers.run(now, &mut self.far);
        self.far.pages.tries.store(self.walkers.trying(), Ordering::Relaxed);
        for (object, part, index) in std::mem::take(&mut self.far.wanted) {
            let region = Arc::clone(&self.far.objects[object].parts[part]);
            let lane = self.random.usize(..self.pagers.len());
            self.pagers[lane].on_note(PagerNote::Want { region, index }, now);
            moved = true;
        }
        moved |= self.wake(now);
        moved
    }

    fn wake(&mut self, now: Time) -> bool {
        let woken = std::mem::take(&mut self.far.space().state().woken);
        woken.iter().for_each(|span| self.walkers.wake(*span, now));
        !woken.is_empty()
    }

    /// To which fault thread a dial belongs, and its number there: each server for the first thread, then for the second, and
    /// so on; then the agent for each.
    fn owner(&self, dial: usize) -> usize {
        let to_servers = self.shape.lanes * self.shape.servers;
        if dial < to_servers { dial / self.shape.servers } else { dial - to_servers }
    }

    fn pager(&mut self, link: LinkId) -> Option<&mut Pager<SimSpace>> {
        let owner = *self.owners.get(&link)?;
        self.pagers.get_mut(owner)
    }
}

impl Service for Application {
    type Note = ();

    fn on_turn(&mut self, now: Time) -> bool {
        self.is_busy = false;
        let mut moved = self.run_threads(now);
        let first = self.random.usize(..self.pagers.len());
        for lane in (first..self.pagers.len()).chain(0..first) {
            let has_faults = !self.far.space().state().faults.is_empty();
            self.pagers[lane].polled(has_faults);
            moved |= self.pagers[lane].on_turn(now);
            // Threads that were woken may be quicker than those that make room.
            if self.random.bool() {
                moved |= self.run_threads(now);
            }
        }
        self.do_chores(now);
        moved |= self.wake(now);
        self.audit();
        moved
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: Origin, now: Time) {
        let Origin::Dialled(dial) = origin else { return };
        let owner = self.owner(dial);
        let is_server = peer.intro().role == Role::MemoryServer;
        self.recorder.expect(is_server == (dial < self.shape.lanes * self.shape.servers), || {
            format!("dial {dial} leads to whom it should")
        });
        self.owners.insert(link, owner);
        self.pagers[owner].on_open(link, peer, origin, now);
        self.is_busy = true;
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.is_busy = true;
        self.pager(link).map_or(Disposition::Taken, |pager| pager.on_frame(link, frame, now))
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.is_busy = true;
        if let Some(pager) = self.pager(link) {
            pager.on_completion(link, completion, now);
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        self.pager(id).map_or(Ok(false), |pager| pager.send(id, link, now))
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.is_busy = true;
        if let Some(pager) = self.pager(link) {
            pager.on_lost(link, error, now);
        }
        self.owners.remove(&link);
    }

    fn next_deadline(&self) -> Option<Time> {
        let state = self.far.space().state();
        let at_once = self.is_busy || !state.faults.is_empty() || !state.woken.is_empty();
        let pagers = self.pagers.iter().filter_map(Pager::next_deadline);
        let own = self.walkers.next_at().into_iter().chain(self.chores.next_at());
        pagers.chain(own).chain(at_once.then_some(Time::ZERO)).min()
    }

    fn on_time(&mut self, now: Time) {
        self.pagers.iter_mut().for_each(|pager| pager.on_time(now));
    }
}
