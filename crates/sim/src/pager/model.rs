//! The contents that memory must have: every word holds the value that was last stored there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outboard_link::memory::{Mapping, Segment};
use outboard_paging::application::Stripes;
use outboard_paging::server::{Home, WriteEpoch};
use outboard_wire::{Generation, Grant, Incarnation, RegionId, RegionKey, Rights};

use super::layout::{OBJECTS, PLANS, PagerPlan, Shape, WORD, grant};
use crate::Recorder;

/// A region at a memory server, to which the product's half of the protocol brings what was written.
pub(super) struct Region {
    pub(super) bytes: Arc<Segment>,
    pub(super) epoch: WriteEpoch,
    /// Whether the server has no room for more.
    pub(super) is_full: AtomicBool,
    grant: Grant,
}

impl Home for Region {
    fn rights(&self, generation: Generation, key: &RegionKey) -> Option<Rights> {
        ((generation, *key) == (self.grant.generation, self.grant.key)).then_some(self.grant.rights)
    }

    fn size(&self) -> u64 {
        self.grant.size
    }

    fn memory(&self) -> &Mapping {
        &self.bytes
    }

    fn epoch(&self) -> &WriteEpoch {
        &self.epoch
    }

    fn take_room(&self, _: u64, _: u64) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    fn give_back(&self, offset: usize, len: usize) {
        self.bytes.discard(offset, len);
    }
}

/// The memory of one life of a memory server.
pub(super) struct Memory {
    pub(super) life: Incarnation,
    pub(super) regions: BTreeMap<RegionId, Arc<Region>>,
}

impl Memory {
    /// The word of a server in its first life: no two are the same. Those of a later life stand for no store.
    pub(super) fn new(life: Incarnation, server: usize, shape: &Shape) -> Self {
        let mut regions = BTreeMap::new();
        for (object, plan) in PLANS.iter().enumerate() {
            for (stripes, size) in plan.parts(shape.servers) {
                if shape.server_of(object, stripes.part) != server {
                    continue;
                }
                let len = (size as usize).next_multiple_of(4096);
                // Without some pages of memory there is nothing to simulate.
                let bytes = Arc::new(Segment::create(c"outboard-sim", len).expect("some pages of memory"));
                let grant = grant(object, stripes.part, size);
                regions.insert(
                    grant.region,
                    Arc::new(Region {
                        bytes,
                        epoch: WriteEpoch::new(1),
                        is_full: AtomicBool::new(false),
                        grant,
                    }),
                );
            }
        }
        Self { life, regions }
    }
}

/// The memory of the servers, as far as they have been started.
pub(super) type Memories = Rc<RefCell<Vec<Option<Memory>>>>;

/// Numbers that are stored begin here; what a word holds before is its own number.
const FIRST: u64 = 1 << 32;

/// Knows the newest value of every word. Values grow, so that older ones can be told from newer ones.
pub(super) struct Model {
    recorder: Recorder,
    memories: Memories,
    shape: Shape,
    /// The parts of each object.
    parts: [Vec<Stripes>; OBJECTS],
    newest: [Vec<u64>; OBJECTS],
    latest: u64,
}

impl Model {
    /// Gives all words their first values, at the servers too: numbers of their own, or zeros.
    pub(super) fn new(recorder: Recorder, memories: Memories, shape: Shape) -> Self {
        let newest = std::array::from_fn(|object| {
            let plan: &PagerPlan = &PLANS[object];
            let first = |word| if shape.is_fresh[object] { 0 } else { u64::from(plan.class.0) << 24 | word };
            (0..plan.words() as u64).map(first).collect()
        });
        let parts =
            PLANS.each_ref().map(|plan| plan.parts(shape.servers).iter().map(|part| part.0).collect());
        let model = Self { recorder, memories, shape, parts, newest, latest: FIRST };
        for object in 0..OBJECTS {
            model.for_chunks(object, |words, bytes, at| {
                let first: Vec<u8> =
                    model.newest[object][words].iter().flat_map(|word| word.to_le_bytes()).collect();
                bytes.window_mut(at, first.len()).write(0, &first);
            });
        }
        model
    }

    /// Which part of its object a word belongs to.
    pub(super) fn part_of(&self, object: usize, word: usize) -> usize {
        self.parts[object][0].part_of((word * WORD) as u64) as usize
    }

    /// Calls `visit` for every chunk of an object: with the words of the object that it has, the region at its server, and
    /// where it lies there.
    fn for_chunks(&self, object: usize, mut visit: impl FnMut(std::ops::Range<usize>, &Segment, usize)) {
        let (plan, memories) = (&PLANS[object], self.memories.borrow());
        let chunk = plan.class.bytes();
        for start in (0..plan.size).step_by(chunk) {
            let part = self.parts[object][0].part_of(start as u64);
            let memory = memories[self.shape.server_of(object, part)].as_ref();
            let region = memory.map(|memory| &memory.regions[&grant(object, part, 0).region]);
            let at = self.parts[object][part as usize].chunk(start as u64, chunk) as usize * chunk;
            let words = start / WORD..(start + chunk).min(plan.words() * WORD) / WORD;
            visit(words, &region.expect("servers have been started").bytes, at);
        }
    }

    /// All words of an object as servers have them.
    fn at_servers(&self, object: usize) -> Vec<u64> {
        let mut found = Vec::with_capacity(PLANS[object].words());
        self.for_chunks(object, |words, bytes, at| {
            found.extend(bytes.window(at, words.len() * WORD).words(words.len()))
        });
        found
    }

    /// The number that is stored next.
    pub(super) fn next(&self) -> u64 {
        self.latest + 1
    }

    /// The next number is stored in a word.
    pub(super) fn store(&mut self, object: usize, word: usize) {
        self.latest += 1;
        self.newest[object][word] = self.latest;
    }

    /// Words are discarded.
    pub(super) fn discard(&mut self, object: usize, words: std::ops::Range<usize>) {
        self.newest[object][words].fill(0);
    }

    /// A word was loaded.
    pub(super) fn load(&self, object: usize, word: usize, found: u64) {
        let newest = self.newest[object][word];
        self.recorder.expect(found == newest, || {
            format!(
                "a load sees the newest store: word {word} of object {object} is {found:#x}, not {newest:#x}"
            )
        });
    }

    /// All that was stored so far.
    pub(super) fn stored(&self, object: usize) -> Vec<u64> {
        self.newest[object].clone()
    }

    /// A flush of the parts that `is_there` names has ended, which began when the object was as in `stored`.
    pub(super) fn flushed(&self, object: usize, stored: &[u64], is_there: impl Fn(usize) -> bool) {
        let is_there: Vec<bool> = (0..self.parts[object].len()).map(is_there).collect();
        let found = self.at_servers(object);
        for (word, (least, most)) in stored.iter().zip(&self.newest[object]).enumerate() {
            let found = found[word];
            if (least..=most).contains(&&found) || !is_there[self.part_of(object, word)] {
                continue;
            }
            self.recorder.fail(format!(
                "the server has what was flushed: word {word} of object {object} is {found:#x}, not from {least:#x} to {most:#x}"
            ));
        }
    }

    /// Gives stores up that the servers do not have: they may have any value that was stored.
    pub(super) fn adopt(&mut self, object: usize) {
        let found = self.at_servers(object);
        for (word, (found, newest)) in found.iter().zip(&self.newest[object]).enumerate() {
            self.recorder.expect(found <= newest, || {
                format!("the server has what was stored: word {word} of object {object} is {found:#x}")
            });
        }
        self.newest[object] = found;
    }
}
