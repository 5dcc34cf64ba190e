//! A writer: the initiator that an application's thread runs, and an application that writes by both paths.

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{AccessError, Completion, Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory};
use outboard_wire::writing::WriterId;
use outboard_wire::{Role, Time};
use outboard_writing::{BeginError, Completed, Hint, Initiator, Write, WriteId, WritePath, WriterConfig};

use super::books::Books;
use super::layout::{REGIONS, WORDS, grant};
use crate::Boot;

/// The longest write, in words.
const LONGEST: usize = 24;

/// How an application behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// The mean time between two bursts of writes.
    pub(super) pause: Duration,
    /// How many writes it begins in one burst at most.
    pub(super) burst: usize,
    /// How long an agent may be silent.
    pub(super) relay_patience: Duration,
    /// Until when it writes.
    pub(super) until: Time,
    /// How much it has under way.
    pub(super) config: WriterConfig,
}

impl Habits {
    pub(super) fn draw(random: &mut Rng, until: Time) -> Self {
        let config = WriterConfig {
            ring_bytes: 1 << random.u32(10..14),
            unloaded_max: random.usize(4..64),
            offloaded_max: random.usize(2..16),
            batches_max: random.usize(1..4),
            batch_bytes: random.usize(200..2000),
            ..WriterConfig::default()
        };
        Self {
            pause: Duration::from_micros(random.u64(10..2000)),
            burst: random.usize(1..8),
            relay_patience: Duration::from_millis(random.u64(2..60)),
            until,
            config,
        }
    }
}

/// A connection to one life of the server.
struct Connection {
    initiator: Initiator,
    session: usize,
    /// The slots of the regions, as far as they were opened.
    slots: Vec<u32>,
    is_opening: bool,
    /// The writes that have begun, with their numbers in the books.
    begun: Vec<(WriteId, usize)>,
}

/// A writer.
pub(super) struct WriterNode {
    number: usize,
    habits: Habits,
    random: Rng,
    books: Books,
    server: Option<LinkId>,
    agent: Option<LinkId>,
    connection: Option<Connection>,
    next_at: Time,
    unloaded: u64,
}

impl WriterNode {
    pub(super) fn new(boot: Boot, number: usize, habits: Habits, books: Books) -> Self {
        let (random, next_at) = (boot.random, boot.now);
        let (server, agent, connection) = (None, None, None);
        Self { number, habits, random, books, server, agent, connection, next_at, unloaded: 0 }
    }

    /// Whether it has written what it wanted, and all of that has ended.
    pub(super) fn is_done(&self, now: Time) -> bool {
        now >= self.habits.until && self.connection.as_ref().is_some_and(|c| c.initiator.is_idle())
    }

    /// Compares the memory with what was done since it connected last. Returns how many writes those were.
    pub(super) fn compare(&self) -> usize {
        self.connection.as_ref().map_or(0, |connection| self.books.compare(connection.session))
    }

    /// How many writes it has unloaded.
    pub(super) fn unloaded(&self) -> u64 {
        self.unloaded + self.connection.as_ref().map_or(0, |c| c.initiator.counts().unloaded)
    }

    /// Tells the books of a fence, and no machine.
    #[cfg(test)]
    pub(super) fn pretend_fence(&self) {
        if let Some(connection) = &self.connection {
            self.books.fence(connection.session);
        }
    }

    fn connect<L: Link>(&mut self, link: &L, now: Time) -> &mut Connection {
        let Self { connection, random, habits, books, number, agent, .. } = self;
        connection.get_or_insert_with(|| {
            let session = books.begin_session(*number, link.peer().incarnation());
            let mut names = Rng::with_seed(random.u64(..));
            let draw = move || WriterId(std::array::from_fn(|_| names.u8(..)));
            let mut initiator = Initiator::new(link, agent.is_some(), draw, habits.config, now);
            initiator.set_relay_patience(habits.relay_patience);
            Connection { initiator, session, slots: Vec::new(), is_opening: false, begun: Vec::new() }
        })
    }

    /// Opens the regions, one after the other. One that the server has withdrawn is done without.
    fn open<L: RemoteMemory>(&mut self, link: &mut L) {
        let Some(connection) = &mut self.connection else { return };
        if connection.is_opening {
            match connection.initiator.opened(link) {
                None => return,
                Some(opened) => connection.slots.push(opened.unwrap_or(u32::MAX)),
            }
            connection.is_opening = false;
        }
        if connection.slots.len() < REGIONS {
            let grant = grant(self.number, connection.slots.len());
            connection.is_opening = connection.initiator.open(link, &grant).is_ok();
        }
    }

    /// Where to write: often to a few words, so that writes meet.
    fn draw_words(&mut self) -> Range<usize> {
        let len = self.random.usize(..=LONGEST);
        let first =
            if self.random.bool() { self.random.usize(..32) } else { self.random.usize(..WORDS - len) };
        first..first + len
    }

    /// Begins some writes. Returns whether any has begun.
    fn write<L: RemoteMemory>(&mut self, link: &mut L, now: Time) -> bool {
        let mut any = false;
        for _ in 0..self.random.usize(1..=self.habits.burst) {
            let (region, words) = (self.random.usize(..REGIONS), self.draw_words());
            let path = [None, Some(WritePath::Offload), Some(WritePath::Unload)][self.random.usize(..3)];
            let (signal, fences) = (self.random.bool(), self.random.u32(..20) == 0);
            let Some(connection) = &mut self.connection else { break };
            let Some(slot) = connection.slots.get(region).copied() else { break };
            if fences {
                connection.initiator.fence();
                self.books.fence(connection.session);
            }
            let bytes = self.books.next_stamp(connection.session).to_le_bytes().repeat(words.len());
            let offset = (words.start * 8) as u64;
            let write = Write { slot, offset, bytes: &bytes, hint: Hint::None, path, signal };
            match connection.initiator.begin(link, &write, || now) {
                Ok((id, _)) => {
                    any = true;
                    connection.begun.push((id, self.books.begin(connection.session, region, words)));
                }
                // A region that was never opened, or a link that is gone.
                Err(BeginError::Access(_)) => {}
                Err(BeginError::NotYet(_)) => break,
            }
        }
        any
    }

    /// Enters into the books how writes have ended.
    fn gather(&mut self) {
        let Some(Connection { initiator, session, begun, .. }) = &mut self.connection else { return };
        while let Some(Completed { id, result, .. }) = initiator.next_completed() {
            let Some(at) = begun.iter().position(|(other, _)| *other == id) else { continue };
            let (_, number) = begun.remove(at);
            match result {
                Ok(()) => self.books.done(*session, number),
                Err(AccessError::Lost(_)) => self.books.lost(*session, number),
                Err(_) => self.books.refused(*session, number),
            }
        }
        if initiator.is_idle() && initiator.lost().is_none() {
            // Of the others only failures would have been told.
            begun.drain(..).for_each(|(_, number)| self.books.done(*session, number));
        }
    }

    /// The server is gone, or is not to be believed.
    fn lose(&mut self, error: &LinkError) {
        if let Some(connection) = &mut self.connection {
            connection.initiator.server_lost(error.clone());
        }
        self.gather();
        if let Some(connection) = self.connection.take() {
            self.books.end_session(connection.session);
            self.unloaded += connection.initiator.counts().unloaded;
        }
        self.server = None;
    }

    fn serve<L: Link + RemoteMemory>(&mut self, link: &mut L, now: Time) -> Result<bool, LinkError> {
        let connection = self.connect(link, now);
        connection.initiator.conclude(now)?;
        if connection.initiator.is_stranded() {
            let session = connection.session;
            self.books.strand(session);
        }
        self.open(link);
        self.gather();
        let mut moved = false;
        if now >= self.next_at && now < self.habits.until {
            moved = self.write(link, now);
            self.next_at = now + self.habits.pause.mul_f64(0.5 + self.random.f64());
        }
        if let Some(connection) = &mut self.connection {
            moved |= connection.initiator.send_to_server(link)?;
        }
        self.gather();
        Ok(moved)
    }
}

impl Service for WriterNode {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, _: Time) {
        if peer.intro().role == Role::Agent {
            self.agent = Some(link);
            if let Some(connection) = &mut self.connection {
                connection.initiator.drain_by(true);
            }
        } else {
            self.server = Some(link);
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        match &mut self.connection {
            Some(connection) if self.server == Some(link) => connection.initiator.on_server_frame(&frame),
            Some(connection) if self.agent == Some(link) => connection.initiator.on_relay_frame(&frame),
            _ => Disposition::Taken,
        }
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, _: Time) {
        if let (Some(connection), true) = (&mut self.connection, self.server == Some(link)) {
            connection.initiator.on_completion(completion);
        }
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        if self.server == Some(id) {
            return self.serve(link, now);
        }
        match &mut self.connection {
            Some(connection) if self.agent == Some(id) => {
                let sent = connection.initiator.send_to_relay(link);
                if connection.initiator.has_relay() {
                    return Ok(sent);
                }
                // An agent that was given up is left, and may be tried again.
                Err(LinkError { peer: link.peer().clone(), loss: Loss::ClosedHere })
            }
            _ => Ok(false),
        }
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, _: Time) {
        if self.server == Some(link) {
            self.lose(error);
        } else if self.agent == Some(link) {
            self.agent = None;
            if let Some(connection) = &mut self.connection {
                connection.initiator.relay_lost();
            }
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let connection = self.connection.as_ref();
        let writes = (connection.is_some() && self.next_at < self.habits.until).then_some(self.next_at);
        let due = connection.and_then(|connection| connection.initiator.next_deadline());
        writes.into_iter().chain(due).min()
    }

    fn on_time(&mut self, _: Time) {}
}
