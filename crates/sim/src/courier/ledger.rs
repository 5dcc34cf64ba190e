//! What the application was told and what arrived, and whether the two agree.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use outboard_wire::Incarnation;

use super::source::RETAINED_MAX;
use crate::{Digest, Recorder};

/// One life of the source.
#[derive(Default)]
struct Told {
    bodies: Vec<Digest>,
    acknowledged: u64,
    /// The first message that no life of the destination has had.
    covered: u64,
}

#[derive(Default)]
struct Pages {
    told: BTreeMap<Incarnation, Told>,
    /// The next message of a life of the source at a life of the destination.
    next: BTreeMap<(Incarnation, Incarnation), u64>,
}

/// Knows everything. Clones are the same ledger.
#[derive(Clone)]
pub(super) struct Ledger {
    recorder: Recorder,
    pages: Rc<RefCell<Pages>>,
}

fn print_of(body: &[u8]) -> Digest {
    let mut digest = Digest::new();
    digest.bytes(body);
    digest
}

impl Ledger {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, pages: Rc::default() }
    }

    /// The source has taken a message from its application.
    pub(super) fn told(&self, source: Incarnation, sequence: u64, body: &[u8]) {
        let mut pages = self.pages.borrow_mut();
        let told = pages.told.entry(source).or_default();
        let print = print_of(body);
        self.recorder.note("told", &[("sequence", sequence), ("body", print.value())]);
        let kept = sequence + 1 - told.acknowledged.min(sequence);
        self.recorder.expect(kept <= RETAINED_MAX as u64, || {
            format!("at most {RETAINED_MAX} messages are kept, but there are {kept}")
        });
        told.bodies.push(print);
    }

    /// The source had no room for another message.
    pub(super) fn refused(&self) {
        self.recorder.note("refused", &[]);
    }

    /// The source has heard that everything before `number` has arrived.
    pub(super) fn acknowledged(&self, source: Incarnation, number: u64) {
        self.recorder.note("acknowledged", &[("number", number)]);
        let mut pages = self.pages.borrow_mut();
        let told = pages.told.entry(source).or_default();
        let covered = told.covered;
        self.recorder.expect(number <= covered, || {
            format!("only what has arrived is acknowledged, but {number} of {covered} messages were")
        });
        told.acknowledged = number;
    }

    /// The destination has handed a message to its application.
    pub(super) fn delivered(&self, at: Incarnation, source: Incarnation, sequence: u64, body: &[u8]) {
        let print = print_of(body);
        self.recorder.note("delivered", &[("sequence", sequence), ("body", print.value())]);
        let pages = &mut *self.pages.borrow_mut();
        let Some(told) = pages.told.get_mut(&source) else {
            return self.recorder.fail(format!("nobody sent anything as {source}, but {sequence} arrived"));
        };
        self.recorder.expect(told.bodies.get(sequence as usize) == Some(&print), || {
            format!("message {sequence} arrives as it was sent, or not at all")
        });
        match pages.next.insert((at, source), sequence + 1) {
            Some(next) => self.recorder.expect(sequence == next, || {
                format!(
                    "each message arrives once and in order: after {next} messages came number {sequence}"
                )
            }),
            None => {
                let (acknowledged, covered) = (told.acknowledged, told.covered);
                self.recorder.expect((acknowledged..=covered).contains(&sequence), || {
                    format!(
                        "a new life of the destination goes on where the former one was: of messages \
                         {acknowledged} to {covered} it was {sequence}"
                    )
                });
            }
        }
        told.covered = told.covered.max(sequence + 1);
    }

    /// At the end: everything that the last life of the source was told has arrived.
    pub(super) fn close(&self, source: Incarnation) {
        let pages = self.pages.borrow();
        let Some(told) = pages.told.get(&source) else { return };
        let (arrived, all) = (told.covered, told.bodies.len() as u64);
        self.recorder.expect(arrived == all && told.acknowledged == all, || {
            format!("everything arrives, but only {arrived} of {all} messages did")
        });
    }
}
