//! Children that the application forks, each of which sees far memory as it was at that moment.
//!
//! A child is what the kernel shows it, the pages that were in their regions, and what is asked of the product for the rest. The
//! copies are made some time after they were asked for, by the thread that serves children.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use outboard_paging::application::{Asked, ChunkCopy, KeptAt, PagedRegion, ProcessAddress, SnapshotId};
use outboard_wire::Time;

use super::application::{Application, Far};
use super::layout::{OBJECTS, WORD};

/// How many children live at once.
const CHILDREN_MAX: usize = 3;
/// How many words of an object a child looks at, at a time.
const LOOKS: usize = 8;

/// A child.
struct Child {
    id: SnapshotId,
    /// The pages that the kernel shows it.
    here: BTreeMap<ProcessAddress, Vec<u8>>,
    /// The words that it must see, by object.
    expected: [Vec<u64>; OBJECTS],
    /// The objects that it sees, as they were mapped.
    parts: [Vec<Arc<PagedRegion>>; OBJECTS],
    until: Time,
}

/// How far the application is with a fork.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It does not fork.
    None,
    /// It waits for what is on its way to a server.
    Settling,
    /// Other handlers have their turn, and other threads go on.
    Settled,
}

/// The forks of the application.
pub(super) struct Forks {
    random: Rng,
    /// How far it is with a fork.
    step: Step,
    children: Vec<Child>,
    asked: VecDeque<Asked>,
    /// By snapshot, region and chunk.
    copies: BTreeMap<(SnapshotId, u32, u32), Vec<u8>>,
}

impl Forks {
    pub(super) fn new(random: Rng) -> Self {
        let (children, asked) = (Vec::new(), VecDeque::new());
        Self { random, step: Step::None, children, asked, copies: BTreeMap::new() }
    }

    /// Whether the process is about to fork.
    pub(super) fn are_under_way(&self) -> bool {
        self.step != Step::None
    }

    /// Goes on with forks and children. New ones begin while `may_begin`.
    pub(super) fn go_on(&mut self, now: Time, far: &Far, may_begin: bool) {
        self.make_copies(far);
        match self.step {
            Step::None if may_begin && self.children.len() < CHILDREN_MAX && self.random.u8(..16) == 0 => {
                far.pages.begin_fork();
                self.step = Step::Settling;
            }
            Step::None => {}
            Step::Settling if far.pages.settle() == 0 => self.step = Step::Settled,
            // Now and then it has no more patience.
            Step::Settling if may_begin => {}
            Step::Settled if may_begin => {
                self.fork(now, far);
                far.pages.end_fork();
                self.step = Step::None;
            }
            Step::Settling | Step::Settled => {
                far.pages.end_fork();
                self.step = Step::None;
            }
        }
        for at in (0..self.children.len()).rev() {
            self.look(at, far);
            if now >= self.children[at].until || !may_begin {
                let child = self.children.swap_remove(at);
                for ended in far.pages.end_snapshot(child.id) {
                    self.copies.retain(|(id, ..), _| *id != ended);
                }
            }
        }
    }

    fn fork(&mut self, now: Time, far: &Far) {
        self.children.push(Child {
            id: far.pages.begin_snapshot(),
            here: far.space().state().all(),
            expected: std::array::from_fn(|object| far.model.stored(object)),
            parts: far.objects.each_ref().map(|object| object.parts.clone()),
            until: now + Duration::from_micros(self.random.u64(..40_000)),
        });
    }

    fn make_copies(&mut self, far: &Far) {
        self.asked.extend(far.pages.take_asked());
        while self.random.u8(..4) > 0
            && let Some((region, chunks)) = self.asked.pop_front()
        {
            for index in chunks {
                while let Some((id, kept)) = far.pages.to_keep(&region, index) {
                    let bytes = region.bytes_of(&(index..index + 1));
                    let copy = far.at_server(&region, bytes.start, (bytes.end - bytes.start) as usize);
                    if let (ChunkCopy::Bytes, Some(copy)) = (kept, copy) {
                        self.copies.insert((id, region.number(), index), copy);
                    }
                    if far.pages.kept(id, &region, index, kept) {
                        break;
                    }
                }
            }
        }
    }

    /// A child looks at some words.
    fn look(&mut self, at: usize, far: &Far) {
        let child = &self.children[at];
        for object in 0..OBJECTS {
            let (now, parts) = (&far.objects[object], &child.parts[object]);
            // An object that was unmapped, or went with a server, is not looked for.
            let is_same = now.parts.iter().zip(parts).all(|(now, then)| Arc::ptr_eq(now, then));
            if now.is_closing || !is_same || parts.is_empty() {
                continue;
            }
            for _ in 0..LOOKS {
                let word = self.random.usize(..child.expected[object].len());
                let (part, index) = far.chunk_of(object, word);
                let Some(found) = self.load(child, far, (&parts[part], index), (parts[0].start(), word))
                else {
                    continue;
                };
                let expected = child.expected[object][word];
                if found != expected {
                    far.object_to(format!(
                        "a child sees far memory as it was when it was forked: word {word} of object {object} is {found:#x}, \
                         not {expected:#x}"
                    ));
                }
            }
        }
    }

    /// A word as a child sees it, unless it is lost.
    fn load(
        &self,
        child: &Child,
        far: &Far,
        (region, index): (&PagedRegion, u32),
        (start, word): (ProcessAddress, usize),
    ) -> Option<u64> {
        let address = start.plus(word * WORD);
        let page = address.page(4096).start;
        let word_in = |bytes: &[u8], at: usize| {
            let word = &bytes[at..at + WORD];
            Some(u64::from_le_bytes(std::array::from_fn(|byte| word[byte])))
        };
        if let Some(bytes) = child.here.get(&page) {
            return word_in(bytes, address.since(page));
        }
        let within = address.since(region.addresses_of(index).start);
        match far.pages.find_kept(child.id, region, index) {
            _ if region.is_lost() => None,
            KeptAt::Zeros => Some(0),
            // A server that was gone when the copy was to be made has lost the region.
            KeptAt::Copy(of) => word_in(self.copies.get(&(of, region.number(), index))?, within),
            KeptAt::Server => {
                let at = region.bytes_of(&(index..index + 1)).start + within as u64;
                word_in(&far.at_server(region, at, WORD)?, 0)
            }
            KeptAt::Child => {
                far.object_to(format!(
                    "the kernel shows a child what was here: chunk {index} of {}",
                    region.spec().name
                ));
                None
            }
        }
    }
}

impl Application {
    /// Forks, and has children look.
    pub(super) fn keep_forks(&mut self, now: Time, may_begin: bool) {
        self.forks.go_on(now, &self.far, may_begin);
    }
}
