//! Everything that happens in a run: the trace, its digest, and the first promise that was broken.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;

use outboard_wire::Time;

use crate::Digest;

/// A number with its name.
pub type Fact = (&'static str, u64);

/// How many facts an event can have.
pub const FACTS_MAX: usize = 3;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// When.
    pub at: Time,
    /// The node it happened to; empty if to none in particular.
    pub who: Rc<str>,
    /// The event, in words.
    pub what: &'static str,
    facts: [Fact; FACTS_MAX],
}

impl fmt::Display for RecordedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:<14} {}", self.at, self.who, self.what)?;
        let given = self.facts.iter().filter(|(name, _)| !name.is_empty());
        given.into_iter().try_for_each(|(name, value)| match u32::try_from(*value) {
            Ok(small) => write!(f, " {name}={small}"),
            Err(_) => write!(f, " {name}={value:#x}"),
        })
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// When it showed.
    pub at: Time,
    /// The node at which it showed; empty if at none in particular.
    pub who: String,
    /// The promise, and the event that broke it.
    pub promise: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.who.is_empty() { "" } else { " at " };
        write!(f, "{}{at}{}: {}", self.at, self.who, self.promise)
    }
}

type Witness = Box<dyn FnMut(&RecordedEvent)>;

struct Book {
    now: Time,
    who: Rc<str>,
    no_node: Rc<str>,
    events: u64,
    digest: Digest,
    latest: VecDeque<RecordedEvent>,
    latest_max: usize,
    broken: Option<Broken>,
    witness: Option<Witness>,
}

/// Where a run is recorded. Clones write into the same book, so machines, checkers and the world share it.
#[derive(Clone)]
pub struct Recorder(Rc<RefCell<Book>>);

impl Recorder {
    /// An empty book that keeps the latest `latest_max` events.
    pub fn new(latest_max: usize) -> Self {
        let no_node: Rc<str> = "".into();
        Self(Rc::new(RefCell::new(Book {
            now: Time::ZERO,
            who: Rc::clone(&no_node),
            no_node,
            events: 0,
            digest: Digest::new(),
            latest: VecDeque::with_capacity(latest_max),
            latest_max,
            broken: None,
            witness: None,
        })))
    }

    /// Shows every event to `witness` as it happens.
    pub fn show(&self, witness: impl FnMut(&RecordedEvent) + 'static) {
        self.0.borrow_mut().witness = Some(Box::new(witness));
    }

    /// Events that are noted from here on happen at `now`, to `who`.
    pub fn enter(&self, now: Time, who: &Rc<str>) {
        let mut book = self.0.borrow_mut();
        book.now = now;
        book.who = Rc::clone(who);
    }

    /// Events that are noted from here on happen at `now`, to no node in particular.
    pub fn leave(&self, now: Time) {
        let mut book = self.0.borrow_mut();
        book.now = now;
        book.who = Rc::clone(&book.no_node);
    }

    /// Notes an event with up to three facts. They are what the digest is made of, so they must follow from the
    /// seed alone: no addresses, no process ids, no keys from the kernel's random numbers.
    pub fn note(&self, what: &'static str, facts: &[Fact]) {
        let book = &mut *self.0.borrow_mut();
        let mut kept = [("", 0); FACTS_MAX];
        kept.iter_mut().zip(facts).for_each(|(place, fact)| *place = *fact);
        book.events += 1;
        book.digest.word(book.now.as_nanos());
        book.digest.bytes(book.who.as_bytes());
        book.digest.bytes(what.as_bytes());
        kept.iter().for_each(|(_, value)| book.digest.word(*value));
        let event = RecordedEvent { at: book.now, who: Rc::clone(&book.who), what, facts: kept };
        if let Some(witness) = &mut book.witness {
            witness(&event);
        }
        if book.latest.len() == book.latest_max {
            book.latest.pop_front();
        }
        book.latest.push_back(event);
    }

    /// Notes that a promise is broken. Only the first one counts: the others may follow from it.
    pub fn fail(&self, promise: impl Into<String>) {
        let book = &mut *self.0.borrow_mut();
        if book.broken.is_none() {
            book.broken = Some(Broken { at: book.now, who: book.who.to_string(), promise: promise.into() });
        }
    }

    /// Notes that a promise is broken unless it holds.
    pub fn expect(&self, holds: bool, promise: impl FnOnce() -> String) {
        if !holds {
            self.fail(promise());
        }
    }

    /// The first promise that was broken.
    pub fn broken(&self) -> Option<Broken> {
        self.0.borrow().broken.clone()
    }

    /// Whether any promise was broken.
    pub fn is_broken(&self) -> bool {
        self.0.borrow().broken.is_some()
    }

    /// The time of what happened last.
    pub fn now(&self) -> Time {
        self.0.borrow().now
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.0.borrow().events
    }

    /// The fingerprint of all events.
    pub fn digest(&self) -> Digest {
        self.0.borrow().digest
    }

    /// The last events, oldest first.
    pub fn latest(&self) -> Vec<RecordedEvent> {
        self.0.borrow().latest.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_tells_order_time_and_facts_apart() {
        let digest = |at, facts: [u64; 2]| {
            let recorder = Recorder::new(4);
            recorder.leave(Time::from_nanos(at));
            facts.iter().for_each(|fact| recorder.note("frame", &[("tag", *fact)]));
            recorder.digest()
        };
        assert_eq!(digest(1, [2, 3]), digest(1, [2, 3]));
        assert_ne!(digest(1, [2, 3]), digest(1, [3, 2]));
        assert_ne!(digest(1, [2, 3]), digest(2, [2, 3]));
    }

    #[test]
    fn the_first_broken_promise_is_kept_with_its_place() {
        let recorder = Recorder::new(2);
        recorder.enter(Time::from_nanos(5), &"owner".into());
        recorder.expect(true, || "this one holds".into());
        recorder.fail("the first");
        recorder.fail("the second");
        let broken = recorder.broken().unwrap();
        assert_eq!(broken.to_string(), "0.000000005s at owner: the first");
    }

    #[test]
    fn only_the_latest_events_are_kept_but_all_are_counted() {
        let recorder = Recorder::new(2);
        (0..5).for_each(|number| recorder.note("tick", &[("number", number)]));
        let shown: Vec<String> = recorder.latest().iter().map(RecordedEvent::to_string).collect();
        assert_eq!((shown.len(), recorder.events()), (2, 5));
        assert!(shown[1].ends_with("tick number=4"), "{shown:?}");
    }
}
