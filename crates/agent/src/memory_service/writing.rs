//! Remote writes that were unloaded, as they are copied home.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use outboard_driver::LinkId;
use outboard_link::memory::Window;
use outboard_link::{Disposition, Frame};
use outboard_wire::access::Status;
use outboard_wire::writing::{
    ATTACH, Attach, BATCH, Batch, DRAINED, Drained, LEAVE, Leave, PRESENT, Present, REFUSED, WriterId,
};
use outboard_wire::{FrameHead, Generation, Kind, RegionId, RegionKey, Room};
use outboard_writing::{Arrival, Drainer, Entries};

use super::MemoryService;
use crate::status::{Gauge, StatusPage};

/// How many writers a server knows. Of those that nobody speaks for any more, the oldest is forgotten first.
const WRITERS_MAX: usize = 1024;

/// Whether a frame is about writes.
pub(crate) fn is_writing(kind: Kind) -> bool {
    kind.0 >> 8 == Room::Writing as u16
}

/// What a slot of a writer stands for. Key and rights are looked at with every entry, as the one-sided path does.
struct Presented {
    region: RegionId,
    generation: Generation,
    key: RegionKey,
}

/// One writer, by whichever links it comes. Locked while a batch is drained, so that a new attachment waits for what an
/// earlier one has begun.
struct Session {
    drainer: Drainer<Presented>,
    /// The link of its latest attachment.
    link: Option<LinkId>,
}

type Shared = Arc<Mutex<Session>>;

/// The writers of a memory server.
pub(crate) struct Writers {
    known: Mutex<Known>,
    batches_total: Gauge,
    entries_total: Gauge,
    bytes_total: Gauge,
    refused_total: Gauge,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<WriterId, Shared>,
    /// Those whose link is gone, longest ago first.
    abandoned: VecDeque<WriterId>,
}

impl Writers {
    pub(super) fn new(page: &StatusPage) -> Self {
        Self {
            known: Mutex::default(),
            batches_total: page.gauge("unloaded_batches_total"),
            entries_total: page.gauge("unloaded_writes_total"),
            bytes_total: page.gauge("unloaded_bytes_total"),
            refused_total: page.gauge("unloaded_writes_refused_total"),
        }
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
        if known.sessions.len() >= WRITERS_MAX {
            let oldest = known.abandoned.pop_front()?;
            known.sessions.remove(&oldest);
        }
        let session = Arc::new(Mutex::new(Session { drainer: Drainer::new(writer), link: None }));
        known.sessions.insert(writer, Arc::clone(&session));
        Some(session)
    }

    /// Somebody speaks for the writer.
    fn keep(&self, writer: WriterId) {
        self.known().abandoned.retain(|other| *other != writer);
    }

    /// Nobody speaks for the writer any more. Whoever passed on for it may be gone before it comes by another way, so that
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

/// The writers that one worker has heard of, so that it need not wait for the others, and by which link each came. Those
/// that the server has forgotten are gone here too.
#[derive(Default)]
pub(super) struct Heard {
    sessions: HashMap<WriterId, (LinkId, Weak<Mutex<Session>>)>,
    answer: Vec<u8>,
}

impl Heard {
    fn add(&mut self, writer: WriterId, link: LinkId, session: &Shared) {
        if self.sessions.len() >= WRITERS_MAX {
            self.sessions.retain(|_, (_, session)| session.strong_count() > 0);
        }
        self.sessions.insert(writer, (link, Arc::downgrade(session)));
    }

    fn find(&self, writer: WriterId) -> Option<Shared> {
        self.sessions.get(&writer)?.1.upgrade()
    }
}

/// The bytes of a batch where they arrived.
struct Arrived<'a>(Window<'a>);

impl Entries for Arrived<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn copy(&self, offset: usize, into: &mut [u8]) {
        self.0.read(offset, into);
    }
}

impl MemoryService {
    /// Does what a frame about writes asks.
    pub(super) fn unload(&mut self, link: LinkId, frame: Frame<'_>) -> Disposition {
        let payload = frame.payload;
        let done = match frame.head.kind {
            ATTACH => copied::<{ Attach::LEN }>(payload).and_then(|bytes| self.attach(link, &bytes)),
            PRESENT => copied::<{ Present::LEN }>(payload).and_then(|bytes| self.present(&bytes)),
            LEAVE => copied::<{ Leave::LEN }>(payload).and_then(|bytes| self.leave(link, &bytes)),
            BATCH => self.drain(link, payload),
            _ => None,
        };
        if done.is_none() {
            self.counts.questions_refused_total.add(1);
            self.outbox.push_copy(link, FrameHead::new(REFUSED), &whose(payload).encode());
        }
        Disposition::Taken
    }

    fn attach(&mut self, link: LinkId, bytes: &[u8]) -> Option<()> {
        let Attach { writer, attempt, .. } = Attach::decode(bytes).ok()?;
        let shared = self.store.writers.session(writer)?;
        let mut session = lock(&shared);
        // What an earlier attempt says late brings nobody back.
        if attempt >= session.drainer.attempt() {
            session.link = Some(link);
            self.store.writers.keep(writer);
            self.heard.add(writer, link, &shared);
        }
        let answer = session.drainer.attach(attempt);
        drop(session);
        self.say(link, &answer);
        Some(())
    }

    fn present(&mut self, bytes: &[u8]) -> Option<()> {
        let Present { writer, attempt, slot, region, generation, key } = Present::decode(bytes).ok()?;
        let session = self.heard.find(writer)?;
        lock(&session).drainer.present(attempt, slot, Presented { region, generation, key });
        Some(())
    }

    fn leave(&mut self, link: LinkId, bytes: &[u8]) -> Option<()> {
        let Leave { writer, attempt } = Leave::decode(bytes).ok()?;
        let (by, session) = self.heard.sessions.get(&writer)?;
        // It may be here by another link already, and somebody who passed on for it says this late.
        if *by != link {
            return Some(());
        }
        if let Some(session) = session.upgrade() {
            let mut session = lock(&session);
            if session.drainer.attempt() == attempt {
                self.store.writers.abandon(writer, &mut session);
            }
        }
        self.heard.sessions.remove(&writer);
        Some(())
    }

    fn drain(&mut self, link: LinkId, payload: Window<'_>) -> Option<()> {
        if payload.len() < Batch::LEN {
            return None;
        }
        let batch = Batch::decode(&payload.array::<{ Batch::LEN }>(0)).ok()?;
        let data = payload.part(Batch::LEN, payload.len() - Batch::LEN);
        let session = self.heard.find(batch.writer)?;
        let (store, gates) = (&self.store, &mut self.gates);
        let (mut done, mut refused, mut bytes) = (0, 0, 0);
        let apply = |arrival: Arrival<'_, Presented>| {
            let status = match arrival.region {
                None => Status::NotOpen,
                Some(Presented { region, generation, key }) => {
                    let data = data.part(arrival.bytes.start, arrival.bytes.len());
                    let gate = gates.find(*region, store);
                    gate.map_or(Status::NotOpen, |gate| gate.write((*generation, key), arrival.offset, data))
                }
            };
            if status == Status::Done {
                done += 1;
                bytes += arrival.bytes.len() as u64;
            } else {
                refused += 1;
            }
            status
        };
        let answer = lock(&session).drainer.drain(&batch, &Arrived(data), apply).ok()?;
        let writers = &self.store.writers;
        writers.batches_total.add(1);
        writers.entries_total.add(done);
        writers.bytes_total.add(bytes);
        writers.refused_total.add(refused);
        self.say(link, &answer);
        Some(())
    }

    fn say(&mut self, link: LinkId, answer: &Drained) {
        self.heard.answer.clear();
        answer.encode(&mut self.heard.answer);
        self.outbox.push_copy(link, FrameHead::new(DRAINED), &self.heard.answer);
    }

    /// A link is gone. Its writers may come by another, so they are not forgotten at once.
    pub(super) fn writers_lost(&mut self, link: LinkId) {
        let writers = &self.store.writers;
        self.heard.sessions.retain(|writer, (by, session)| {
            if *by != link {
                return true;
            }
            if let Some(session) = session.upgrade() {
                let mut session = lock(&session);
                if session.link == Some(link) {
                    writers.abandon(*writer, &mut session);
                }
            }
            false
        });
    }
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

    #[test]
    fn a_worker_remembers_no_more_writers_than_the_server() {
        let mut heard = Heard::default();
        let mut kept = Vec::new();
        for number in 0..10 * WRITERS_MAX as u64 {
            let mut name = [0; 16];
            name[..8].copy_from_slice(&number.to_le_bytes());
            let drainer = Drainer::new(WriterId(name));
            let session = Arc::new(Mutex::new(Session { drainer, link: None }));
            heard.add(WriterId(name), LinkId(1), &session);
            assert!(heard.sessions.len() <= WRITERS_MAX);
            if number % 100 == 0 {
                kept.push((WriterId(name), session));
            }
        }
        assert!(kept.iter().all(|(writer, _)| heard.find(*writer).is_some()), "those that live are known");
    }
}
