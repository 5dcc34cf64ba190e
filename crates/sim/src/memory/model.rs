//! The contents that memory may have, given the operations that were begun and those that are known to have ended.
//!
//! An operation whose link was lost may have happened or not, and until the owner has noticed the loss it may
//! still happen, even after operations that the same client began later on another link. So a value can be read
//! as long as nothing that certainly came later is known to be done.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use outboard_driver::LinkId;
use outboard_link::memory::Segment;
use outboard_wire::Incarnation;

use super::layout::{COUNTERS, REGISTERS, WORDS};
use crate::Recorder;

/// A point in the order of everything that is asked and answered.
type Moment = u64;

/// A write as the model remembers it.
struct Write {
    connection: u64,
    begun: Moment,
    /// When it was known to be done.
    known: Option<Moment>,
}

#[derive(Default)]
struct Counter {
    begun: u64,
    done: u64,
    /// The values that additions found; each finds another one.
    found: BTreeSet<u64>,
}

#[derive(Default)]
struct Register {
    wanted: BTreeSet<u64>,
    replaced: BTreeSet<u64>,
}

/// The memory of one life of the owner.
struct Memory {
    segment: Arc<Segment>,
    writes: Vec<Write>,
    /// The values that each word was given, with the number of the write, in the order in which they were asked.
    history: Vec<Vec<(u64, usize)>>,
    /// When the owner noticed that a connection was lost.
    cut: BTreeMap<u64, Moment>,
    counters: [Counter; COUNTERS],
    registers: [Register; REGISTERS],
    withdrawn: Option<Moment>,
}

/// The knowledge when an operation was begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    moment: Moment,
    done: [u64; COUNTERS],
}

/// Both ends of a link have the same connection.
fn connection(link: LinkId) -> u64 {
    link.0 / 2
}

impl Memory {
    /// Whether `write` is certainly overwritten by a later one that was done by `moment`.
    fn is_superseded(&self, word: usize, write: Option<usize>, moment: Moment) -> bool {
        let earlier = write.map(|index| &self.writes[index]);
        let begun = earlier.map_or(0, |write| write.begun);
        // After this it cannot happen any more.
        let last = earlier.map_or(0, |write| {
            write.known.or(self.cut.get(&write.connection).copied()).unwrap_or(Moment::MAX)
        });
        let later = self.history[word].iter().rev().map(|(_, index)| &self.writes[*index]);
        later.take_while(|later| later.begun > begun).any(|later| {
            let follows = earlier.is_some_and(|earlier| earlier.connection == later.connection);
            later.known.is_some_and(|known| known <= moment) && (follows || later.begun > last)
        })
    }

    /// Why a word cannot hold `value` for someone who began to look at `ticket`.
    fn objection(&self, word: usize, value: u64, ticket: &Ticket) -> Option<String> {
        if word < COUNTERS {
            let (least, most) = (ticket.done[word], self.counters[word].begun);
            let is_possible = (least..=most).contains(&value);
            return (!is_possible).then(|| format!("counter {word} is {value}, not from {least} to {most}"));
        }
        if let Some(register) = word.checked_sub(COUNTERS).and_then(|index| self.registers.get(index)) {
            let is_known = value == 0 || register.wanted.contains(&value);
            return (!is_known).then(|| format!("no accessor put {value:#x} into register word {word}"));
        }
        let given =
            self.history[word].iter().rev().find(|(given, _)| *given == value).map(|(_, index)| *index);
        if given.is_none() && value != 0 {
            return Some(format!("no accessor wrote {value:#x} to word {word}"));
        }
        let is_gone = self.is_superseded(word, given, ticket.moment);
        is_gone.then(|| format!("word {word} is {value:#x}, which had been overwritten"))
    }
}

#[derive(Default)]
struct Facts {
    moment: Moment,
    owners: BTreeMap<Incarnation, Memory>,
}

/// Knows what every life of the owner may hold. Clones are the same model.
#[derive(Clone)]
pub(super) struct Model {
    recorder: Recorder,
    facts: Rc<RefCell<Facts>>,
}

impl Model {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, facts: Rc::default() }
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// A life of the owner begins with zeros.
    pub(super) fn own(&self, owner: Incarnation, segment: Arc<Segment>) {
        let memory = Memory {
            segment,
            writes: Vec::new(),
            history: vec![Vec::new(); WORDS],
            cut: BTreeMap::new(),
            counters: Default::default(),
            registers: Default::default(),
            withdrawn: None,
        };
        self.facts.borrow_mut().owners.insert(owner, memory);
    }

    /// Does something with one memory, at a new moment.
    fn with<T>(&self, owner: Incarnation, act: impl FnOnce(&mut Memory, Moment) -> T) -> T {
        let facts = &mut *self.facts.borrow_mut();
        facts.moment += 1;
        // Links say whose they are, and every life of the owner introduces itself before it has any.
        let memory = facts.owners.get_mut(&owner).expect("every owner is known");
        act(memory, facts.moment)
    }

    fn object(&self, objection: Option<String>) {
        if let Some(objection) = objection {
            self.recorder.fail(format!("memory holds what was put there: {objection}"));
        }
    }

    /// An operation is begun.
    pub(super) fn begin(&self, owner: Incarnation) -> Ticket {
        self.with(owner, |memory, moment| Ticket { moment, done: memory.counters.each_ref().map(|c| c.done) })
    }

    /// A write of whole words is begun. Returns its number.
    pub(super) fn begin_write(&self, owner: Incarnation, link: LinkId, word: usize, values: &[u64]) -> usize {
        self.with(owner, |memory, begun| {
            let index = memory.writes.len();
            memory.writes.push(Write { connection: connection(link), begun, known: None });
            for (place, value) in memory.history[word..].iter_mut().zip(values) {
                place.push((*value, index));
            }
            index
        })
    }

    /// A write is known to be done.
    pub(super) fn written(&self, owner: Incarnation, index: usize) {
        self.with(owner, |memory, moment| {
            memory.writes[index].known.get_or_insert(moment);
        });
    }

    /// The owner was told after a write that it must be there, and looked at its first word.
    pub(super) fn witness(&self, owner: Incarnation, index: usize, (word, value): (usize, u64)) {
        self.written(owner, index);
        let ticket = self.begin(owner);
        let objection = self.with(owner, |memory, _| memory.objection(word, value, &ticket));
        if let Some(objection) = objection {
            self.recorder.fail(format!("a frame sent after a write arrives after it: {objection}"));
        }
    }

    /// Bytes were read from `offset`. Only whole aligned words are promised anything.
    pub(super) fn read(&self, owner: Incarnation, ticket: &Ticket, offset: usize, bytes: &[u8]) {
        let first = offset.next_multiple_of(8);
        let words = bytes.get(first - offset..).unwrap_or_default().as_chunks::<8>().0;
        let objection = self.with(owner, |memory, _| {
            let numbered = (first / 8..WORDS).zip(words.iter().map(|word| u64::from_le_bytes(*word)));
            numbered.into_iter().find_map(|(word, value)| memory.objection(word, value, ticket))
        });
        self.object(objection);
    }

    /// An addition to a counter is begun.
    pub(super) fn begin_add(&self, owner: Incarnation, word: usize) -> Ticket {
        self.with(owner, |memory, _| memory.counters[word].begun += 1);
        self.begin(owner)
    }

    /// An addition is done, and found `old`.
    pub(super) fn added(&self, owner: Incarnation, ticket: &Ticket, word: usize, old: u64) {
        let objection = self.with(owner, |memory, _| {
            let counter = &mut memory.counters[word];
            counter.done += 1;
            if !counter.found.insert(old) {
                return Some(format!("two additions to counter {word} found {old}"));
            }
            let most = counter.begun - 1;
            let is_possible = (ticket.done[word]..=most).contains(&old);
            (!is_possible).then(|| format!("an addition to counter {word} found {old}, over {most} or stale"))
        });
        self.object(objection);
    }

    /// A replacement in a register is begun.
    pub(super) fn begin_swap(&self, owner: Incarnation, register: usize, wanted: u64) {
        self.with(owner, |memory, _| memory.registers[register].wanted.insert(wanted));
    }

    /// A replacement is done, and found `old` where it wanted `expected`.
    pub(super) fn swapped(&self, owner: Incarnation, register: usize, expected: u64, old: u64) {
        let objection = self.with(owner, |memory, _| {
            let Register { wanted, replaced } = &mut memory.registers[register];
            if old != 0 && !wanted.contains(&old) {
                return Some(format!("no accessor put {old:#x} into register {register}"));
            }
            let again = old == expected && !replaced.insert(old);
            again.then(|| format!("{old:#x} in register {register} was replaced twice"))
        });
        self.object(objection);
    }

    /// The owner has noticed that a link is gone: nothing that came over it happens any more.
    pub(super) fn cut(&self, owner: Incarnation, link: LinkId) {
        self.with(owner, |memory, moment| memory.cut.insert(connection(link), moment));
    }

    /// The owner has withdrawn the region that does not stay.
    pub(super) fn withdraw(&self, owner: Incarnation) {
        self.with(owner, |memory, moment| memory.withdrawn = Some(moment));
    }

    /// An access to the region that does not stay has ended.
    pub(super) fn visited_shed(&self, owner: Incarnation, ticket: &Ticket, was_open: bool) {
        let withdrawn = self.with(owner, |memory, _| memory.withdrawn);
        let is_possible = match withdrawn {
            None => was_open,
            Some(moment) => !was_open || ticket.moment < moment,
        };
        self.recorder.expect(is_possible, || {
            format!("a region is open until it is withdrawn and never after: open {was_open}")
        });
    }

    /// At the end: counters hold what was added, give or take what is unknown, and words what was written.
    pub(super) fn close(&self) {
        let owners: Vec<Incarnation> = self.facts.borrow().owners.keys().copied().collect();
        for owner in owners {
            let ticket = self.begin(owner);
            let bytes = self.with(owner, |memory, _| memory.segment.window(0, WORDS * 8).to_vec());
            self.read(owner, &ticket, 0, &bytes);
        }
    }
}
