//! The contents that the server's memory may have, given the writes that have begun and those that have ended.
//!
//! Every word of a write is its stamp: the session of the writer, and the number of the write in it. So each word tells which
//! write has put it there. The books look at memory whenever the server has done something, and see every change.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use outboard_link::memory::Segment;
use outboard_wire::Incarnation;

use super::layout::{REGIONS, WORDS};
use crate::Recorder;

/// How a write has ended, as far as its writer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It has not.
    None,
    /// It is visible.
    Done,
    /// Nothing of it was written.
    Refused,
    /// Unknown: it may have been written, or may be.
    Lost,
}

/// A write as the books remember it.
#[derive(Clone, Debug)]
struct Record {
    region: usize,
    words: Range<usize>,
    end: End,
    /// How many writes of the session are before the latest fence before it.
    fenced: usize,
}

/// The writes of a writer to one life of the server, from its connection to the loss of that.
struct Session {
    writer: usize,
    server: Incarnation,
    records: Vec<Record>,
    fenced: usize,
    /// How many of its first writes have ended.
    ended: usize,
    /// Whether the server has forgotten the writer: what was under way then may be seen twice.
    is_stranded: bool,
}

/// A region in one life of the server, and what was last seen there.
struct Seen {
    memory: Arc<Segment>,
    bytes: Vec<u8>,
}

impl Seen {
    fn word(&self, at: usize) -> u64 {
        word(&self.bytes, at)
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|byte| bytes[at * 8 + byte]))
}

#[derive(Default)]
struct Facts {
    sessions: Vec<Session>,
    /// By life of the server, writer and region.
    memory: BTreeMap<(Incarnation, usize, usize), Seen>,
}

/// Knows what may be where. Clones are the same books.
#[derive(Clone)]
pub(super) struct Books {
    recorder: Recorder,
    facts: Rc<RefCell<Facts>>,
}

/// A write of a session, by its stamp.
fn stamp(session: usize, number: usize) -> u64 {
    (session as u64 + 1) << 32 | (number as u64 + 1)
}

fn of_stamp(word: u64) -> Option<(usize, usize)> {
    let (session, number) = ((word >> 32).checked_sub(1)?, (word & 0xffff_ffff).checked_sub(1)?);
    Some((session as usize, number as usize))
}

impl Session {
    fn find(&self, number: usize) -> Option<&Record> {
        self.records.get(number)
    }

    /// Whether all writes before this one's fence have ended.
    fn may_be_seen(&self, number: usize) -> bool {
        self.ended >= self.records[number].fenced
    }

    fn end(&mut self, number: usize, end: End) {
        self.records[number].end = end;
        while self.records.get(self.ended).is_some_and(|record| record.end != End::None) {
            self.ended += 1;
        }
    }
}

impl Facts {
    /// The record of a write that can have put `word` there.
    fn author(&self, word: u64, place: (Incarnation, usize, usize), at: usize) -> Option<(usize, usize)> {
        let (session, number) = of_stamp(word)?;
        let known = self.sessions.get(session)?;
        let record = known.find(number)?;
        let is_there = (known.server, known.writer, record.region) == place && record.words.contains(&at);
        is_there.then_some((session, number))
    }

    /// Why a word cannot have changed like this.
    fn objection(
        &self,
        (before, after): (u64, u64),
        place: (Incarnation, usize, usize),
        at: usize,
    ) -> Option<String> {
        let Some((session, number)) = self.author(after, place, at) else {
            return Some(format!("nothing is torn, but no writer wrote {after:#x} to word {at}"));
        };
        let known = &self.sessions[session];
        if !matches!(known.records[number].end, End::None | End::Lost) {
            let end = known.records[number].end;
            return Some(format!("each write is applied once, but {number} came after it was {end:?}"));
        }
        if !known.may_be_seen(number) && known.records[number].end == End::None {
            return Some(format!(
                "a fence orders everything, but write {number} came before one ahead of it"
            ));
        }
        match of_stamp(before) {
            Some((other, earlier)) if other == session && earlier > number => {
                let may_be_twice = known.is_stranded && known.records[earlier].end == End::None;
                (!may_be_twice)
                    .then(|| format!("writes apply in order, but word {at} went from {earlier} to {number}"))
            }
            _ => None,
        }
    }

    /// Looks at all memory of one life of the server.
    fn look(&mut self, server: Incarnation) -> Option<String> {
        let places: Vec<_> =
            self.memory.range((server, 0, 0)..=(server, usize::MAX, usize::MAX)).map(|(p, _)| *p).collect();
        let mut now = vec![0; WORDS * 8];
        for place in places {
            let seen = &self.memory[&place];
            seen.memory.window(0, WORDS * 8).read(0, &mut now);
            if now == seen.bytes {
                continue;
            }
            for at in 0..WORDS {
                let (before, after) = (seen.word(at), word(&now, at));
                if before != after
                    && let Some(objection) = self.objection((before, after), place, at)
                {
                    return Some(objection);
                }
            }
            if let Some(seen) = self.memory.get_mut(&place) {
                seen.bytes.copy_from_slice(&now);
            }
        }
        None
    }

    /// Whether a word holds this write, a later one of the same session, or one of another session that was lost and has come
    /// late.
    fn holds(&self, session: usize, number: usize, at: usize) -> bool {
        let known = &self.sessions[session];
        let place = (known.server, known.writer, known.records[number].region);
        let Some(seen) = self.memory.get(&place) else { return false };
        match self.author(seen.word(at), place, at) {
            Some((other, later)) if other == session => later >= number,
            Some((other, late)) => self.sessions[other].records[late].end == End::Lost,
            None => false,
        }
    }
}

impl Books {
    pub(super) fn new(recorder: Recorder) -> Self {
        Self { recorder, facts: Rc::default() }
    }

    /// A life of the server has this memory for a region of a writer.
    pub(super) fn own(&self, server: Incarnation, (writer, region): (usize, usize), memory: Arc<Segment>) {
        let seen = Seen { memory, bytes: vec![0; WORDS * 8] };
        self.facts.borrow_mut().memory.insert((server, writer, region), seen);
    }

    /// The server has done something.
    pub(super) fn look(&self, server: Incarnation) {
        if let Some(objection) = self.facts.borrow_mut().look(server) {
            self.recorder.fail(objection);
        }
    }

    /// A writer has connected to a life of the server. What it had begun before, and a crash made it forget, is lost.
    pub(super) fn begin_session(&self, writer: usize, server: Incarnation) -> usize {
        let sessions = self.facts.borrow().sessions.len();
        let is_its = |session: &usize| self.facts.borrow().sessions[*session].writer == writer;
        (0..sessions).filter(is_its).for_each(|session| self.end_session(session));
        let sessions = &mut self.facts.borrow_mut().sessions;
        sessions.push(Session {
            writer,
            server,
            records: Vec::new(),
            fenced: 0,
            ended: 0,
            is_stranded: false,
        });
        sessions.len() - 1
    }

    /// The bytes of the next write of a session, if it begins.
    pub(super) fn next_stamp(&self, session: usize) -> u64 {
        stamp(session, self.facts.borrow().sessions[session].records.len())
    }

    /// A write has begun. Returns its number.
    pub(super) fn begin(&self, session: usize, region: usize, words: Range<usize>) -> usize {
        let session = &mut self.facts.borrow_mut().sessions[session];
        let fenced = session.fenced;
        session.records.push(Record { region, words, end: End::None, fenced });
        session.records.len() - 1
    }

    /// The server has forgotten the writer.
    pub(super) fn strand(&self, session: usize) {
        self.facts.borrow_mut().sessions[session].is_stranded = true;
    }

    /// Writes from now on begin when all before have ended.
    pub(super) fn fence(&self, session: usize) {
        let session = &mut self.facts.borrow_mut().sessions[session];
        session.fenced = session.records.len();
    }

    /// The writer was told that a write is visible.
    pub(super) fn done(&self, session: usize, number: usize) {
        let mut facts = self.facts.borrow_mut();
        let words = facts.sessions[session].records[number].words.clone();
        for at in words {
            let is_visible = facts.holds(session, number, at);
            self.recorder.expect(is_visible, || {
                format!("a write that has ended is visible, but word {at} is not of {number} or later")
            });
        }
        facts.sessions[session].end(number, End::Done);
    }

    /// The writer was told that nothing of a write was written.
    pub(super) fn refused(&self, session: usize, number: usize) {
        let mut facts = self.facts.borrow_mut();
        let known = &facts.sessions[session];
        let place = (known.server, known.writer, known.records[number].region);
        let stamp = stamp(session, number);
        let is_seen =
            facts.memory.get(&place).is_some_and(|seen| (0..WORDS).any(|at| seen.word(at) == stamp));
        self.recorder.expect(!is_seen, || format!("nothing of a refused write is seen, but {number} is"));
        facts.sessions[session].end(number, End::Refused);
    }

    /// Notes that a write may have been done or not.
    pub(super) fn lost(&self, session: usize, number: usize) {
        self.facts.borrow_mut().sessions[session].end(number, End::Lost);
    }

    /// The writes of a session that have not ended.
    pub(super) fn under_way(&self, session: usize) -> Vec<usize> {
        let session = &self.facts.borrow().sessions[session];
        let rest = session.records.iter().enumerate().skip(session.ended);
        rest.filter(|(_, record)| record.end == End::None).map(|(number, _)| number).collect()
    }

    /// A session is over: the rest of it is lost.
    pub(super) fn end_session(&self, session: usize) {
        self.under_way(session).into_iter().for_each(|number| self.lost(session, number));
    }

    /// In the end every word of a session holds the latest of its writes that was done there. Returns how many were done.
    pub(super) fn compare(&self, session: usize) -> usize {
        let facts = self.facts.borrow();
        let known = &facts.sessions[session];
        let done = known.records.iter().enumerate().filter(|(_, record)| record.end == End::Done);
        let mut latest = vec![[None; WORDS]; REGIONS];
        let mut count = 0;
        for (number, record) in done {
            record.words.clone().for_each(|at| latest[record.region][at] = Some(number));
            count += 1;
        }
        for (region, words) in latest.iter().enumerate() {
            let place = (known.server, known.writer, region);
            for (at, number) in words.iter().enumerate() {
                let Some(number) = number else { continue };
                let author = facts.author(facts.memory[&place].word(at), place, at);
                let is_right = match author {
                    Some((other, found)) if other == session => found == *number,
                    Some((other, found)) => facts.sessions[other].records[found].end == End::Lost,
                    None => false,
                };
                self.recorder.expect(is_right, || {
                    format!("word {at} holds write {number} in the end, not {author:?}")
                });
            }
        }
        count
    }
}
