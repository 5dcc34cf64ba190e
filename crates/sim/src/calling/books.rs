//! The deeds of callers, against the memory of all lives of all servers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use outboard_calling::CallFault;
use outboard_link::memory::Segment;
use outboard_wire::Incarnation;
use outboard_wire::calling::{CallFailure, TrapReason};

use super::functions::{CELLS_MAX, read_answer};
use super::history::{Event, Op, check};
use crate::Recorder;

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// An operation on the table of a server, by its place among the events.
    Table(usize),
    /// Marks cells, one at each server that it comes to.
    Marks {
        /// At the server where it begins.
        here: u64,
        /// At the one where it goes on.
        there: Option<u64>,
    },
}

/// How a call that marks cells has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Unknown: its caller has died.
    Unknown,
    Replied,
    Failed {
        may_have_run: bool,
    },
}

#[derive(Default)]
struct Facts {
    events: Vec<(Incarnation, Event)>,
    /// A clock that shows which of two things was first.
    now: u64,
    marks: Vec<(u64, Option<u64>, End)>,
    next_cell: u64,
    /// The cells of every life of every server.
    cells: Vec<Arc<Segment>>,
    /// How often calls have ended so.
    counts: BTreeMap<&'static str, u64>,
}

/// Knows what was called, and what may have come of it. Clones are the same books.
#[derive(Clone)]
pub(super) struct Books {
    recorder: Recorder,
    facts: Rc<RefCell<Facts>>,
    /// Nothing goes wrong: every call that has time enough gets its reply.
    pub(super) is_fair: bool,
}

impl Books {
    pub(super) fn new(recorder: Recorder, is_fair: bool) -> Self {
        Self { recorder, facts: Rc::default(), is_fair }
    }

    /// A life of a server begins with these cells.
    pub(super) fn own(&self, cells: Arc<Segment>) {
        self.facts.borrow_mut().cells.push(cells);
    }

    /// An operation on the table of a server begins. A put puts a value that no other does.
    pub(super) fn begin_table(&self, server: Incarnation, key: u8, mut op: Op) -> (Deed, Op) {
        let mut facts = self.facts.borrow_mut();
        facts.now += 1;
        if let Op::Put(value) = &mut op {
            *value = facts.now;
        }
        let event = Event { key, op, began: facts.now, ended: None, did_nothing: false };
        facts.events.push((server, event));
        (Deed::Table(facts.events.len() - 1), op)
    }

    /// A cell for a call that marks one, if any is left, by its offset.
    pub(super) fn next_cell(&self) -> Option<u64> {
        let mut facts = self.facts.borrow_mut();
        facts.next_cell += 1;
        (facts.next_cell < CELLS_MAX as u64).then_some(facts.next_cell * 8)
    }

    /// The call did not begin after all.
    pub(super) fn not_begun(&self, deed: Deed) {
        match deed {
            Deed::Table(event) => self.facts.borrow_mut().events[event].1.did_nothing = true,
            Deed::Marks { .. } => self.end_marks(deed, End::Failed { may_have_run: false }),
        }
    }

    fn end_marks(&self, deed: Deed, end: End) {
        if let Deed::Marks { here, there } = deed {
            self.facts.borrow_mut().marks.push((here, there, end));
        }
    }

    /// A caller dies with this call under way.
    pub(super) fn orphan(&self, deed: Deed) {
        self.end_marks(deed, End::Unknown);
        // A get without a reader does not matter.
        if let Deed::Table(event) = deed {
            let mut facts = self.facts.borrow_mut();
            let event = &mut facts.events[event].1;
            event.did_nothing |= matches!(event.op, Op::Get(_));
        }
    }

    /// A call has replied.
    pub(super) fn replied(&self, deed: Deed, value: u64, reply: &[u8]) {
        self.count("replied");
        match deed {
            Deed::Marks { here, there } => {
                self.recorder.expect(value == 0, || {
                    format!("each call runs at most once, but {here} was marked {value} times before")
                });
                let cells: Vec<u8> = std::iter::once(here).chain(there).flat_map(u64::to_le_bytes).collect();
                self.recorder
                    .expect(reply == cells, || format!("a call replies its cells, not {reply:02x?}"));
                self.end_marks(deed, End::Replied);
            }
            Deed::Table(event) => {
                let mut facts = self.facts.borrow_mut();
                facts.now += 1;
                let ended = facts.now;
                let event = &mut facts.events[event].1;
                match read_answer(event.op, value, reply) {
                    Ok(op) => {
                        event.did_nothing = op.is_none();
                        event.op = op.unwrap_or(event.op);
                        event.ended = Some(ended);
                    }
                    Err(promise) => self.recorder.fail(promise),
                }
            }
        }
    }

    /// A call has failed; `is_late` if its time was over.
    pub(super) fn failed(&self, deed: Deed, fault: CallFault, is_late: bool) {
        let may_have_run = fault.may_have_run();
        self.count(if may_have_run { "may have run" } else { "did not run" });
        self.recorder
            .expect(is_late || !self.is_fair, || format!("nothing fails in fair weather: {fault:?}"));
        self.recorder.expect(is_late || !matches!(fault, CallFault::Late { .. }), || {
            "a call is late only when its time is over".to_owned()
        });
        let is_ours = |reason| matches!(reason, TrapReason::NotReached | TrapReason::NoForward);
        if let CallFault::Failed(CallFailure::Trapped { reason, .. }) = fault
            && !is_ours(reason)
        {
            self.recorder.fail(format!("functions do not fail: {fault:?}"));
        }
        self.end_marks(deed, End::Failed { may_have_run });
        if let Deed::Table(event) = deed {
            let mut facts = self.facts.borrow_mut();
            let event = &mut facts.events[event].1;
            // Whether it was read cannot be told, and does not matter.
            event.did_nothing = !may_have_run || matches!(event.op, Op::Get(_));
        }
    }

    /// Takes a put for done whose answer did not come. No machine may.
    #[cfg(test)]
    pub(super) fn pretend_done(&self, deed: Deed) {
        if let Deed::Table(event) = deed {
            let mut facts = self.facts.borrow_mut();
            facts.now += 1;
            let ended = facts.now;
            let event = &mut facts.events[event].1;
            if let Op::Put(_) = event.op {
                (event.ended, event.did_nothing) = (Some(ended), false);
            }
        }
    }

    fn count(&self, what: &'static str) {
        *self.facts.borrow_mut().counts.entry(what).or_default() += 1;
    }

    /// Compares what callers were told with what the servers' memory says, when nothing is under way any more.
    pub(super) fn close(&self) {
        let facts = self.facts.borrow();
        let marked = |cell: u64| -> u64 {
            facts.cells.iter().map(|cells| cells.word(cell as usize).load(Ordering::SeqCst)).sum()
        };
        for (here, there, end) in &facts.marks {
            let (runs, further) = (marked(*here), there.map_or(0, marked));
            let is_right = match end {
                End::Replied => runs == 1 && further == u64::from(there.is_some()),
                End::Unknown | End::Failed { may_have_run: true } => runs <= 1 && further <= runs,
                End::Failed { may_have_run: false } => runs == 0 && further == 0,
            };
            self.recorder.expect(is_right, || {
                format!("each call runs at most once, and as it says: {end:?} ran {runs} times, and {further} further")
            });
        }
        let lives: std::collections::BTreeSet<Incarnation> =
            facts.events.iter().map(|(life, _)| *life).collect();
        for life in lives {
            let events: Vec<Event> =
                facts.events.iter().filter(|(other, _)| *other == life).map(|(_, event)| *event).collect();
            if let Err(key) = check(&events) {
                let of_key: Vec<_> = events.iter().filter(|event| event.key == key).collect();
                self.recorder.fail(format!(
                    "a single hash map could have given what was seen of key {key}: {of_key:?}"
                ));
            }
        }
        let counts: Vec<(&'static str, u64)> =
            facts.counts.iter().map(|(what, count)| (*what, *count)).collect();
        self.recorder.note("calls", &counts);
    }
}
