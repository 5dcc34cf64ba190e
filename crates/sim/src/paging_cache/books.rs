//! The bytes that regions may hold, and that applications may be given of them.
//!
//! A region is leased to one writer or to many readers, each of which has a session. Every write-back has a stamp of its own,
//! so each grain of a region tells which write-back has put it there. The books look into the server's memory whenever a
//! write-back has come home or a lease changes hands.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use outboard_agent::Gate;
use outboard_paging::server::Home;
use outboard_wire::{Incarnation, RegionId};

use super::layout::{GRAIN, GRAINS, span, stamp_of};
use crate::Recorder;

/// One life of a server, and a region there.
type Place = (Incarnation, RegionId);

/// A lease, from the server's answer until the region is released, given to others or gone.
struct Session {
    process: Incarnation,
    place: Place,
    writes: bool,
    is_over: bool,
}

struct Region {
    gate: Arc<Gate>,
    /// The value that was acknowledged last, for each grain.
    settled: Vec<u64>,
    /// Write-backs of the present writer that were not acknowledged.
    pending: Vec<(Range<usize>, u64)>,
    /// Write-backs that had not come when the lease of their writer ended.
    missed: BTreeSet<u64>,
}

impl Region {
    /// The value of a grain; none if it is torn.
    fn held(&self, grain: usize) -> Option<u64> {
        let (place, mut bytes) = (span(grain..grain + 1), [0; GRAIN]);
        let bytes = &mut bytes[..place.len()];
        self.gate.memory().window(place.start, place.len()).read(0, bytes);
        stamp_of(bytes)
    }

    /// The fault in the memory: a grain holds neither what was acknowledged nor what is being written.
    fn objection(&self, mut grains: Range<usize>) -> Option<String> {
        grains.find_map(|grain| {
            let held = self.held(grain);
            let mut written = self.pending.iter().filter(|(grains, _)| grains.contains(&grain));
            let is_right = held.is_some_and(|held| {
                held == self.settled[grain] || written.any(|(_, stamp)| *stamp == held)
            });
            (!is_right).then(|| {
                let settled = self.settled[grain];
                format!("what was acknowledged is at the server, but grain {grain} is {held:x?} instead of {settled:#x}")
            })
        })
    }
}

#[derive(Default)]
struct Facts {
    sessions: Vec<Session>,
    regions: BTreeMap<Place, Region>,
    stamps: u64,
}

impl Facts {
    /// The lease of a writer is over: what it had written may have come or not, and nothing of the rest ever comes.
    fn settle(&mut self, place: Place) -> Option<String> {
        let region = self.regions.get_mut(&place)?;
        let objection = region.objection(0..GRAINS);
        for (mut grains, stamp) in std::mem::take(&mut region.pending) {
            if grains.any(|grain| region.held(grain) != Some(stamp)) {
                region.missed.insert(stamp);
            }
        }
        for grain in 0..GRAINS {
            region.settled[grain] = region.held(grain).unwrap_or(region.settled[grain]);
        }
        objection
    }

    fn end_sessions(&mut self, is_over: impl Fn(&Session) -> bool) {
        self.sessions
            .iter_mut()
            .filter(|session| is_over(session))
            .for_each(|session| session.is_over = true);
    }
}

/// Knows what may be where. Clones are the same books.
#[derive(Clone)]
pub(super) struct Books {
    recorder: Recorder,
    facts: Rc<RefCell<Facts>>,
}

impl Books {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, facts: Rc::default() }
    }

    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn judge(&self, objection: Option<String>) {
        if let Some(objection) = objection {
            self.recorder.fail(objection);
        }
    }

    /// A server begins a life: its former one has taken everything along.
    pub(super) fn server_starts(&self) {
        let mut facts = self.facts.borrow_mut();
        facts.end_sessions(|_| true);
        facts.regions.clear();
    }

    /// The server has leased a region to a process.
    pub(super) fn leased(&self, place: Place, process: Incarnation, gate: &Arc<Gate>, writes: bool) {
        let mut facts = self.facts.borrow_mut();
        let objection = facts.settle(place);
        facts.end_sessions(|other| other.place == place && (writes || other.writes));
        facts.sessions.push(Session { process, place, writes, is_over: false });
        let region = facts.regions.entry(place).or_insert_with(|| Region {
            gate: Arc::clone(gate),
            settled: vec![0; GRAINS],
            pending: Vec::new(),
            missed: BTreeSet::new(),
        });
        region.gate = Arc::clone(gate);
        drop(facts);
        self.judge(objection);
    }

    /// The server has taken a region back from a process.
    pub(super) fn released(&self, place: Place, process: Incarnation) {
        let mut facts = self.facts.borrow_mut();
        let objection = facts.settle(place);
        facts.end_sessions(|session| session.place == place && session.process == process);
        drop(facts);
        self.judge(objection);
    }

    /// The latest session of a process.
    pub(super) fn session(&self, process: Incarnation) -> Option<usize> {
        self.facts.borrow().sessions.iter().rposition(|session| session.process == process)
    }

    /// A process writes grains back. Returns the stamp to write.
    pub(super) fn write(&self, session: usize, grains: Range<usize>) -> u64 {
        let facts = &mut *self.facts.borrow_mut();
        facts.stamps += 1;
        let (known, stamp) = (&facts.sessions[session], facts.stamps);
        if let Some(region) = facts.regions.get_mut(&known.place).filter(|_| !known.is_over) {
            region.pending.push((grains, stamp));
        }
        stamp
    }

    /// A write-back has come home to these grains.
    pub(super) fn look(&self, place: Place, grains: Range<usize>) {
        let facts = self.facts.borrow();
        self.judge(facts.regions.get(&place).and_then(|region| region.objection(grains)));
    }

    /// A process was told that a write-back has come home.
    pub(super) fn written(&self, session: usize, stamp: u64) {
        let facts = &mut *self.facts.borrow_mut();
        let known = &facts.sessions[session];
        let Some(region) = facts.regions.get_mut(&known.place) else { return };
        let is_there = match region.pending.iter().position(|(_, pending)| *pending == stamp) {
            Some(at) => {
                let (grains, _) = region.pending.swap_remove(at);
                region.settled[grains.clone()].fill(stamp);
                grains.into_iter().all(|grain| region.held(grain) == Some(stamp))
            }
            None => !region.missed.contains(&stamp),
        };
        self.recorder
            .expect(is_there, || format!("what was acknowledged is at the server, but {stamp:#x} is not"));
    }

    /// A process was given these grains by an agent, and has written none of them meanwhile.
    pub(super) fn fetched(&self, session: usize, grains: Range<usize>, data: &[u8]) {
        let facts = self.facts.borrow();
        let known = &facts.sessions[session];
        // A process that has lost its lease need not know it yet.
        let Some(region) = facts.regions.get(&known.place).filter(|_| !known.is_over) else { return };
        self.recorder.expect(data.len() == span(grains.clone()).len(), || {
            format!("what is fetched is whole, but {grains:?} are {} bytes", data.len())
        });
        let start = span(grains.clone()).start;
        for grain in grains {
            let place = span(grain..grain + 1);
            let got = data.get(place.start - start..place.end - start).and_then(stamp_of);
            let wanted = region.settled[grain];
            self.recorder.expect(got == Some(wanted), || {
                format!("what is fetched is what was written last: grain {grain} is {got:x?} instead of {wanted:#x}")
            });
        }
    }

    /// In the end nothing is being written. Returns how many grains were.
    pub(super) fn compare(&self) -> u64 {
        let facts = self.facts.borrow();
        facts.regions.values().for_each(|region| self.judge(region.objection(0..GRAINS)));
        facts.regions.values().flat_map(|region| &region.settled).filter(|stamp| **stamp > 0).count() as u64
    }
}
