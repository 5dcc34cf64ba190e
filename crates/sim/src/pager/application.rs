//! The application: threads that use far memory, and the pagers of its fault threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_paging::application::chunks::{ChunkKey, SeatId, State};
use outboard_paging::application::{
    BufferFollower, Cause, Fault, FingerprintKey, InPlace, PagedRegion, Pager, PagerNote, Pages, RegionSpec,
    Remaining,
};
use outboard_paging::server::Home;
use outboard_wire::paging::{PagingStatus, WriteBack};
use outboard_wire::{Grant, Role, Time};

use super::chores::Chores;
use super::forks::Forks;
use super::layout::{self, OBJECTS, PLANS, Shape, WORD, grant};
use super::model::{Memories, Model};
use super::space::SimSpace;
use super::walkers::Walkers;
use crate::{Boot, Recorder};

/// An object as the application has mapped it.
#[derive(Default)]
pub(super) struct Object {
    pub(super) parts: Vec<Arc<PagedRegion>>,
    /// No walker begins to use it any more.
    pub(super) is_leaving: bool,
    /// Stores that were not flushed are not missed.
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
    random: Rng,
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

    /// Maps an object. When it was mapped before, its chunks may go by another way from now on, and servers refuse what is still
    /// on its way from before.
    pub(super) fn map(&mut self, object: usize, is_given_up: bool) {
        let (plan, shape) = (&PLANS[object], self.shape);
        let goes_another_way = shape.changes_paths && !self.objects[object].parts.is_empty();
        let (path, cache) =
            if goes_another_way { layout::draw_path(&mut self.random) } else { shape.paths[object] };
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
                store: outboard_wire::StoreId::NONE,
                stripes,
                epoch,
                class: plan.class,
                writable: shape.is_writable[object],
                is_fresh: shape.is_fresh[object] && self.objects[object].parts.is_empty(),
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

    /// The bytes that a server has of a region, if it lives that has it.
    pub(super) fn at_server(&self, region: &PagedRegion, offset: u64, len: usize) -> Option<Vec<u8>> {
        let (spec, memories) = (region.spec(), self.memories.borrow());
        let memory = memories[spec.at].as_ref().filter(|memory| memory.life == spec.server)?;
        let mut bytes = vec![0; len];
        memory.regions.get(&spec.grant.region)?.bytes.window(offset as usize, len).read(0, &mut bytes);
        Some(bytes)
    }

    /// The thread that touched memory last answers the fault itself. By the signal it cannot tell why, only whether it was to
    /// store something.
    pub(super) fn answer_in_place(&self) -> InPlace {
        let fault = self.space().state().faults.pop_back();
        fault.map_or(InPlace::Again, |Fault { address, cause }| {
            let cause = if cause == Cause::Read { Cause::Read } else { Cause::Write };
            self.pages.answer_in_place(Fault { address, cause })
        })
    }

    /// Begins to unmap an object.
    pub(super) fn close(&mut self, object: usize) {
        let state = &mut self.objects[object];
        state.is_closing = true;
        self.pages.begin_closing(&state.parts);
        self.pages.space().state().leave(state.parts[0].addresses());
    }

    /// Discards a chunk, if all is at rest that has to be. Returns whether it is over, done or not.
    pub(super) fn discard(&mut self, object: usize, part: usize, chunk: u32) -> bool {
        let region = Arc::clone(&self.objects[object].parts[part]);
        if region.is_lost() || self.objects[object].is_leaving {
            return true;
        }
        let (range, number) = (chunk..chunk + 1, region.number());
        let is_coming = |(_, key, state): (SeatId, ChunkKey, State)| {
            (key.region, key.index) == (number, chunk) && state == State::Fetching
        };
        let is_coming = self.pages.cells().any(|cell| cell.shard().seats().any(is_coming));
        if is_coming
            || !self.pages.can_discard(&region, &range)
            || !self.pages.may_be_discarded(&region, &range)
        {
            return false;
        }
        let (spec, bytes) = (region.spec(), region.bytes_of(&range));
        let Grant { region: id, generation, key, .. } = spec.grant;
        let (offset, length) = (bytes.start, (bytes.end - bytes.start) as u32);
        let back = |epoch| WriteBack { region: id, generation, key, epoch, offset, length };
        let epoch = self.pages.ask_to_discard(&region);
        let memories = self.memories.borrow();
        let memory = memories[spec.at].as_ref().filter(|memory| memory.life == spec.server);
        let answer = memory.map(|memory| memory.regions[&id].discard(&back(epoch)));
        let now = answer.filter(|(status, _)| *status == PagingStatus::StaleEpoch).map(|(_, now)| now);
        self.pages.was_asked_to_discard(&region, now);
        let status = answer.map(|(status, _)| status);
        if status == Some(PagingStatus::Done) {
            let remaining = self.pages.discarded(&region, &range, &[]);
            self.recorder.expect(remaining == Remaining::Nothing, || {
                format!("what is at rest is discarded: chunk {chunk} of object {object}")
            });
            let start = region.addresses_of(chunk).start.since(self.objects[object].parts[0].start()) / WORD;
            self.model.discard(object, start..start + length as usize / WORD);
        }
        // Another epoch has begun: it is tried again in that.
        status != Some(PagingStatus::StaleEpoch)
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
    pub(super) shape: Shape,
    /// The largest that the buffer was allowed to be since the last look, or was.
    pub(super) buffer_allowed: usize,
    pub(super) follower: BufferFollower,
    pub(super) far: Far,
    /// One for each fault thread.
    pub(super) pagers: Vec<Pager<SimSpace>>,
    /// Which of them has a link.
    owners: BTreeMap<LinkId, usize>,
    pub(super) walkers: Walkers,
    pub(super) chores: Chores,
    pub(super) forks: Forks,
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
            random: random.fork(),
            wanted: Vec::new(),
        };
        (0..OBJECTS).for_each(|object| far.map(object, false));
        // It wants to know: a flush alone does not have a server given up that never comes back.
        far.pages.listeners.store(shape.loses_a_server.into(), Ordering::Relaxed);
        Self {
            walkers: Walkers::new(&shape, random.fork(), boot.now, until),
            chores: Chores::new(boot.now, until),
            forks: Forks::new(random.fork()),
            recorder,
            random,
            shape,
            buffer_allowed: 0,
            follower: BufferFollower::new(shape.config().buffer, shape.buffer_max),
            far,
            pagers,
            owners: BTreeMap::new(),
            is_busy: false,
        }
    }

    /// Whether all threads have stopped, and everything that was stored has been flushed.
    pub(super) fn is_idle(&self) -> bool {
        self.walkers.are_done()
            && self.chores.are_done()
            && self.far.pages.buffer_used() <= self.far.pages.buffer()
    }

    /// The awaited things, for people.
    pub(super) fn explain(&self) -> String {
        let (waits, tries) = (self.walkers.waiting(), self.walkers.trying());
        let leaving = self.far.objects.iter().filter(|object| object.is_leaving).count();
        let chores = self.chores.explain();
        format!("{waits} threads wait and {tries} try, {leaving} objects are leaving, {chores}")
    }

    /// At the end: the servers have all that was stored.
    pub(super) fn compare(&self) {
        for object in (0..OBJECTS).filter(|object| self.far.is_writable(*object)) {
            self.far.compare(object, &self.far.model.stored(object));
        }
    }

    /// The counts of far memory.
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
        self.far.space().state().is_called = false;
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

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        let LinkOrigin::Dialled(dial) = origin else { return };
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
        let at_once = self.is_busy || state.is_called || !state.faults.is_empty() || !state.woken.is_empty();
        let pagers = self.pagers.iter().filter_map(Pager::next_deadline);
        let own = self.walkers.next_at().into_iter().chain(self.chores.next_at());
        pagers.chain(own).chain(at_once.then_some(Time::ZERO)).min()
    }

    fn on_time(&mut self, now: Time) {
        self.pagers.iter_mut().for_each(|pager| pager.on_time(now));
    }
}
