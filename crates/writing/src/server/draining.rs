//! The memory server's half: the writers that it knows, and what each of its workers does with their frames.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use outboard_contract::memory::Window;
use outboard_contract::{Frame, LinkId, Outbox};
use outboard_wire::access::AccessStatus;
use outboard_wire::writing::{
    ATTACH, AttachWriter, BATCH, Batch, DRAINED, Drained, LEAVE, Leave, PRESENT, Present, REFUSED, WriterId,
};
use outboard_wire::{FrameHead, Generation, RegionId, RegionKey, mutant};

use crate::{DrainedEntry, Drainer};

/// What a slot of a writer stands for. Key and rights are looked at with every entry, as the one-sided path does.
#[derive(Clone, Copy, Debug)]
pub struct Presented {
    /// The region.
    pub region: RegionId,
    /// Which life of it.
    pub generation: Generation,
    /// The key that was presented.
    pub key: RegionKey,
}

/// What came of a frame of a writer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unloaded {
    /// Batches that were drained.
    pub batches: u64,
    /// Writes that were copied home.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Writes that were refused.
    pub refused: u64,
}

/// One writer, by whichever links it comes. Locked while a batch is drained, so that a new attachment waits for what an
/// earlier one has begun.
struct Session {
    drainer: Drainer<Presented>,
    /// The link of its latest attachment.
    link: Option<LinkId>,
}

type Shared = Arc<Mutex<Session>>;

/// The writers that a memory server knows, for all of its workers.
pub struct Sessions {
    known: Mutex<Known>,
    most: usize,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<WriterId, Shared>,
    /// Those whose link is gone, longest ago first.
    abandoned: VecDeque<WriterId>,
}

impl Sessions {
    /// Room for so many writers. Of those that no link speaks for any more, the oldest is forgotten first.
    pub fn new(most: usize) -> Self {
        Self { known: Mutex::default(), most }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session of a writer, which is made if there is room for it.
    fn session(&self, writer: WriterId) -> Option<Shared> {
        let mut known = self.known();
        if let Some(session) = known.sessions.get(&writer) {
            return Some(Arc::clone(session));
        }
        if known.sessions.len() >= self.most {
            let oldest = known.abandoned.pop_front()?;
            known.sessions.remove(&oldest);
        }
        let session = Arc::new(Mutex::new(Session { drainer: Drainer::new(writer), link: None }));
        known.sessions.insert(writer, Arc::clone(&session));
        Some(session)
    }

    /// A link speaks for the writer.
    fn keep(&self, writer: WriterId) {
        self.known().abandoned.retain(|other| *other != writer);
    }

    /// No link speaks for the writer any more. Its agent may be gone before it comes by another path, so that
    /// it is forgotten only when its place is needed.
    fn abandon(&self, writer: WriterId, session: &mut Session) {
        session.link = None;
        session.drainer.rest();
        let mut known = self.known();
        if !known.abandoned.contains(&writer) {
            known.abandoned.push_back(writer);
        }
    }
}

fn lock(session: &Shared) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one worker of a memory server does with what writers unload.
pub struct DrainingWorker {
    sessions: Arc<Sessions>,
    /// The writers that this worker has heard of, so that it need not wait for the others, and by which link each came. Those
    /// that the server has forgotten are gone here too. In order, so that a simulated server does the same again.
    heard: BTreeMap<WriterId, (LinkId, Weak<Mutex<Session>>)>,
    answer: Vec<u8>,
}

impl DrainingWorker {
    /// A worker that has heard of no writer.
    pub fn new(sessions: Arc<Sessions>) -> Self {
        Self { sessions, heard: BTreeMap::new(), answer: Vec::new() }
    }

    /// Does what a frame about writes asks. `write` checks key, rights and bounds of a write as the one-sided path does, and
    /// writes nothing unless it says `Done`. `None` if the frame was refused.
    pub fn on_frame(
        &mut self,
        link: LinkId,
        frame: &Frame<'_>,
        outbox: &mut Outbox,
        write: impl FnMut(&Presented, u64, Window<'_>) -> AccessStatus,
    ) -> Option<Unloaded> {
        let payload = frame.payload;
        let none = Unloaded::default();
        let done = match frame.head.kind {
            ATTACH => {
                copied::<{ AttachWriter::LEN }>(payload).and_then(|bytes| self.attach(link, &bytes, outbox))
            }
            PRESENT => copied::<{ Present::LEN }>(payload).and_then(|bytes| self.present(&bytes)),
            LEAVE => copied::<{ Leave::LEN }>(payload).and_then(|bytes| self.leave(link, &bytes)),
            BATCH => {
                return self.drain(link, payload, outbox, write).or_else(|| refuse(link, payload, outbox));
            }
            _ => None,
        };
        done.map(|()| none).or_else(|| refuse(link, payload, outbox))
    }

    fn attach(&mut self, link: LinkId, bytes: &[u8], outbox: &mut Outbox) -> Option<()> {
        let AttachWriter { writer, attempt, .. } = AttachWriter::decode(bytes).ok()?;
        let shared = self.sessions.session(writer)?;
        let mut session = lock(&shared);
        // A late word of an earlier attempt brings no writer back.
        if attempt >= session.drainer.attempt() {
            session.link = Some(link);
            self.sessions.keep(writer);
            self.hear(writer, link, &shared);
        }
        let answer = session.drainer.attach(attempt);
        drop(session);
        self.say(link, &answer, outbox);
        Some(())
    }

    fn hear(&mut self, writer: WriterId, link: LinkId, session: &Shared) {
        if self.heard.len() >= self.sessions.most {
            self.heard.retain(|_, (_, session)| session.strong_count() > 0);
        }
        self.heard.insert(writer, (link, Arc::downgrade(session)));
    }

    fn find(&self, writer: WriterId) -> Option<Shared> {
        self.heard.get(&writer)?.1.upgrade()
    }

    fn present(&mut self, bytes: &[u8]) -> Option<()> {
        let Present { writer, attempt, slot, region, generation, key } = Present::decode(bytes).ok()?;
        let session = self.find(writer)?;
        lock(&session).drainer.present(attempt, slot, Presented { region, generation, key });
        Some(())
    }

    fn leave(&mut self, link: LinkId, bytes: &[u8]) -> Option<()> {
        let Leave { writer, attempt } = Leave::decode(bytes).ok()?;
        let (by, session) = self.heard.get(&writer)?;
        // It may be here by another link already, and an agent that passed on for it says this late.
        if *by != link {
            return Some(());
        }
        if let Some(session) = session.upgrade() {
            let mut session = lock(&session);
            if session.drainer.attempt() == attempt {
                self.sessions.abandon(writer, &mut session);
            }
        }
        self.heard.remove(&writer);
        Some(())
    }

    fn drain(
        &mut self,
        link: LinkId,
        payload: Window<'_>,
        outbox: &mut Outbox,
        mut write: impl FnMut(&Presented, u64, Window<'_>) -> AccessStatus,
    ) -> Option<Unloaded> {
        if payload.len() < Batch::LEN {
            return None;
        }
        let batch = Batch::decode(&payload.array::<{ Batch::LEN }>(0)).ok()?;
        let entries = payload.part(Batch::LEN, payload.len() - Batch::LEN);
        let session = self.find(batch.writer)?;
        let mut unloaded = Unloaded { batches: 1, ..Unloaded::default() };
        let apply = |arrival: DrainedEntry<'_, Presented>| {
            let DrainedEntry { region, offset, bytes } = arrival;
            let status = region.map_or(AccessStatus::NotOpen, |region| write(region, offset, bytes));
            if status == AccessStatus::Done {
                unloaded.entries += 1;
                unloaded.bytes += bytes.len() as u64;
            } else {
                unloaded.refused += 1;
            }
            status
        };
        let answer = lock(&session).drainer.drain(&batch, entries, apply).ok()?;
        if !mutant("writing.acknowledgement-lost") {
            self.say(link, &answer, outbox);
        }
        Some(unloaded)
    }

    fn say(&mut self, link: LinkId, answer: &Drained, outbox: &mut Outbox) {
        self.answer.clear();
        answer.encode(&mut self.answer);
        outbox.push_copy(link, FrameHead::new(DRAINED), &self.answer);
    }

    /// A link is gone. Its writers may come by another, so they are not forgotten at once.
    pub fn on_lost(&mut self, link: LinkId) {
        let sessions = &self.sessions;
        self.heard.retain(|writer, (by, session)| {
            if *by != link {
                return true;
            }
            if let Some(session) = session.upgrade() {
                let mut session = lock(&session);
                if session.link == Some(link) {
                    sessions.abandon(*writer, &mut session);
                }
            }
            false
        });
    }
}

fn refuse(link: LinkId, payload: Window<'_>, outbox: &mut Outbox) -> Option<Unloaded> {
    outbox.push_copy(link, FrameHead::new(REFUSED), &whose(payload).encode());
    None
}

fn copied<const N: usize>(payload: Window<'_>) -> Option<[u8; N]> {
    (payload.len() == N).then(|| payload.array(0))
}

/// Who sent a frame, by which attempt: that is where every frame about writes begins.
fn whose(payload: Window<'_>) -> Leave {
    if payload.len() < 20 {
        return Leave { writer: WriterId([0; 16]), attempt: 0 };
    }
    Leave { writer: WriterId(payload.array(0)), attempt: u32::from_le_bytes(payload.array(16)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = 64;

    #[test]
    fn a_worker_remembers_no_more_writers_than_the_server() {
        let mut worker = DrainingWorker::new(Arc::new(Sessions::new(MOST)));
        let mut kept = Vec::new();
        for number in 0..10 * MOST as u64 {
            let mut name = [0; 16];
            name[..8].copy_from_slice(&number.to_le_bytes());
            let drainer = Drainer::new(WriterId(name));
            let session = Arc::new(Mutex::new(Session { drainer, link: None }));
            worker.hear(WriterId(name), LinkId(1), &session);
            assert!(worker.heard.len() <= MOST);
            if number % 100 == 0 {
                kept.push((WriterId(name), session));
            }
        }
        assert!(kept.iter().all(|(writer, _)| worker.find(*writer).is_some()), "those that live are known");
    }

    #[test]
    fn a_writer_that_no_link_speaks_for_gives_its_place_to_another() {
        let mut worker = DrainingWorker::new(Arc::new(Sessions::new(1)));
        let mut outbox = Outbox::default();
        let mut attach = |worker: &mut DrainingWorker, name: u8, link| {
            let attach =
                AttachWriter { writer: WriterId([name; 16]), attempt: 1, server: Default::default() };
            let payload = attach.encode();
            let frame = Frame { head: FrameHead::new(ATTACH), payload: payload[..].into() };
            worker.on_frame(link, &frame, &mut outbox, |_, _, _| AccessStatus::Done)
        };
        assert!(attach(&mut worker, 1, LinkId(1)).is_some());
        assert_eq!(attach(&mut worker, 2, LinkId(2)), None, "there is room for one");
        worker.on_lost(LinkId(1));
        assert!(attach(&mut worker, 2, LinkId(2)).is_some());
        assert!(worker.find(WriterId([1; 16])).is_none());
    }
}
