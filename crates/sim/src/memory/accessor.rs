//! A client that reads, writes and updates the owner's memory.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::memory::{Buffer, Window};
use outboard_link::{
    AccessError, AccessOutcome, Completion, Disposition, Frame, Link, LinkError, OpenRegion, Peer,
    RemoteMemory, Token,
};
use outboard_wire::{FrameHead, Incarnation, RegionKey, Rights, Time};

use super::layout::{
    COUNTERS, FULL, KEPT, READ_ONLY, REGISTERS, SHED, SIZE, STRIP, WITNESS, WORDS, grant, strip,
};
use super::model::{Model, Ticket};
use crate::{Boot, Digest};

/// How many operations are under way at most.
const DEPTH: usize = 8;
/// The longest read.
const READ_MAX: usize = 256;

/// The result that an operation is to bring.
enum Purpose {
    Open(Door),
    Read {
        ticket: Ticket,
        offset: usize,
        len: usize,
        slot: usize,
    },
    Write {
        index: usize,
    },
    Add {
        ticket: Ticket,
        word: usize,
    },
    Swap {
        register: usize,
        expected: u64,
    },
    Shed {
        ticket: Ticket,
    },
    /// Nothing: it must be refused.
    Never,
}

/// Ways to open a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    Full,
    ReadOnly,
    Shed,
}

/// The state of one link.
struct Session {
    link: LinkId,
    owner: Incarnation,
    has_asked: bool,
    full: Option<OpenRegion>,
    read_only: Option<OpenRegion>,
    shed: Option<OpenRegion>,
    under_way: BTreeMap<u64, Purpose>,
    /// The value of each register when it was last seen.
    seen: [u64; REGISTERS],
}

/// Does everything that can be done with memory, and some that cannot.
pub(super) struct Accessor {
    client: usize,
    incarnation: Incarnation,
    model: Model,
    random: Rng,
    buffer: Buffer,
    session: Option<Session>,
    /// Counts operations and values.
    serial: u64,
    next_at: Time,
    /// When it stops asking.
    until: Time,
}

impl Accessor {
    pub(super) fn new(boot: Boot, client: usize, model: Model, until: Time) -> Self {
        // Without a page of memory there is nothing to simulate.
        let buffer = Buffer::allocate(DEPTH * READ_MAX).expect("a page of memory");
        Self {
            client,
            incarnation: boot.incarnation,
            model,
            random: boot.random,
            buffer,
            session: None,
            serial: 0,
            next_at: boot.now,
            until,
        }
    }

    /// Whether nothing is under way and nothing more will be.
    pub(super) fn is_idle(&self, now: Time) -> bool {
        now >= self.until && self.session.as_ref().is_none_or(|session| session.under_way.is_empty())
    }

    /// A number that no other accessor uses and whose bytes all differ from those of other numbers.
    fn fresh(&mut self) -> u64 {
        self.serial += 1;
        let mut digest = Digest::new();
        digest.word(self.incarnation.0);
        digest.word(self.serial);
        digest.value()
    }

    fn token(&mut self) -> Token {
        self.serial += 1;
        Token(self.serial)
    }

    fn open<L: RemoteMemory>(&mut self, session: &mut Session, link: &mut L) -> Result<(), AccessError> {
        session.has_asked = true;
        let both = Rights::READ.and(Rights::WRITE);
        let doors = [
            (Door::Full, grant(KEPT, FULL, Rights::ALL), both),
            (Door::ReadOnly, grant(KEPT, READ_ONLY, Rights::READ), Rights::READ),
            (Door::Shed, grant(SHED, FULL, Rights::ALL), both),
        ];
        for (door, grant, rights) in doors {
            let token = self.token();
            link.open(&grant, rights, token)?;
            session.under_way.insert(token.0, Purpose::Open(door));
        }
        let wrong = [
            (grant(KEPT, RegionKey([8; 16]), Rights::ALL), Rights::READ),
            (grant(KEPT, READ_ONLY, Rights::READ), both),
        ];
        for (grant, rights) in wrong {
            let token = self.token();
            link.open(&grant, rights, token)?;
            session.under_way.insert(token.0, Purpose::Never);
        }
        Ok(())
    }

    /// Begins one operation of some kind.
    fn operate<L: Link + RemoteMemory>(
        &mut self,
        session: &mut Session,
        link: &mut L,
    ) -> Result<(), AccessError> {
        let (Some(full), Some(read_only)) = (session.full, session.read_only) else { return Ok(()) };
        match self.random.u8(..16) {
            0..=4 => self.write(session, link, full),
            5..=6 => self.read(session, link, full),
            7..=8 => self.read(session, link, read_only),
            9..=10 => {
                let (token, word) = (self.token(), self.random.usize(..COUNTERS));
                link.fetch_add(full, word as u64 * 8, 1, token)?;
                let ticket = self.model.begin_add(session.owner, word);
                session.under_way.insert(token.0, Purpose::Add { ticket, word });
                Ok(())
            }
            11..=12 => {
                let (token, register) = (self.token(), self.random.usize(..REGISTERS));
                let (expected, wanted) = (session.seen[register], self.fresh());
                link.compare_swap(full, ((COUNTERS + register) * 8) as u64, expected, wanted, token)?;
                self.model.begin_swap(session.owner, register, wanted);
                session.under_way.insert(token.0, Purpose::Swap { register, expected });
                Ok(())
            }
            13 => {
                let Some(shed) = session.shed else { return Ok(()) };
                let token = self.token();
                link.fetch_add(shed, 0, 1, token)?;
                let ticket = self.model.begin(session.owner);
                session.under_way.insert(token.0, Purpose::Shed { ticket });
                Ok(())
            }
            _ => self.trespass(session, link, [full, read_only]),
        }
    }

    /// Writes to the client's own strip, and now and then has the owner look at it.
    fn write<L: Link + RemoteMemory>(
        &mut self,
        session: &mut Session,
        link: &mut L,
        region: OpenRegion,
    ) -> Result<(), AccessError> {
        let first = self.random.usize(..STRIP);
        let count = self.random.usize(1..=STRIP - first);
        let values: Vec<u64> = (0..count).map(|_| self.fresh()).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (token, word) = (self.token(), strip(self.client) + first);
        link.write(region, word as u64 * 8, Window::from(&bytes[..]), token)?;
        let index = self.model.begin_write(session.owner, session.link, word, &values);
        session.under_way.insert(token.0, Purpose::Write { index });
        if self.random.bool() {
            let mut payload = [0; 16];
            payload[..8].copy_from_slice(&(index as u64).to_le_bytes());
            payload[8..].copy_from_slice(&(word as u64).to_le_bytes());
            link.send(FrameHead::new(WITNESS), &payload)?;
        }
        Ok(())
    }

    fn read<L: RemoteMemory>(
        &mut self,
        session: &mut Session,
        link: &mut L,
        region: OpenRegion,
    ) -> Result<(), AccessError> {
        let is_taken = |slot: &usize| {
            session
                .under_way
                .values()
                .any(|purpose| matches!(purpose, Purpose::Read { slot: s, .. } if s == slot))
        };
        let Some(slot) = (0..DEPTH).find(|slot| !is_taken(slot)) else { return Ok(()) };
        let len = self.random.usize(1..=READ_MAX);
        let offset = self.random.usize(..WORDS * 8 - len.min(WORDS * 8 - 1));
        let token = self.token();
        link.read(region, offset as u64, &self.buffer, slot * READ_MAX, len, token)?;
        let ticket = self.model.begin(session.owner);
        session.under_way.insert(token.0, Purpose::Read { ticket, offset, len, slot });
        Ok(())
    }

    /// Tries what must be refused.
    fn trespass<L: RemoteMemory>(
        &mut self,
        session: &mut Session,
        link: &mut L,
        [full, read_only]: [OpenRegion; 2],
    ) -> Result<(), AccessError> {
        let token = self.token();
        let size = SIZE as u64;
        let beyond = [size - 7, size, u64::MAX - 7, u64::MAX][self.random.usize(..4)];
        let word = Window::from(&[1; 8][..]);
        let tried = match self.random.u8(..6) {
            0 => link.write(full, beyond, word, token),
            1 => link.read(full, beyond, &self.buffer, 0, 8, token),
            2 => link.fetch_add(full, beyond.max(size) & !7, 1, token),
            3 => link.compare_swap(full, 8 * self.random.u64(..8) + self.random.u64(1..8), 0, 1, token),
            4 => link.write(read_only, 0, word, token),
            _ => link.fetch_add(read_only, 0, 1, token),
        };
        match tried {
            Ok(()) => {
                session.under_way.insert(token.0, Purpose::Never);
                Ok(())
            }
            Err(lost @ AccessError::Lost(_)) => Err(lost),
            Err(_) => Ok(()),
        }
    }

    fn on_end(
        &mut self,
        session: &mut Session,
        purpose: Purpose,
        result: Result<AccessOutcome, AccessError>,
    ) {
        let owner = session.owner;
        match (purpose, result) {
            (Purpose::Open(Door::Full), Ok(AccessOutcome::Opened(region))) => session.full = Some(region),
            (Purpose::Open(Door::ReadOnly), Ok(AccessOutcome::Opened(region))) => {
                session.read_only = Some(region)
            }
            (Purpose::Open(Door::Shed), Ok(AccessOutcome::Opened(region))) => session.shed = Some(region),
            (Purpose::Open(Door::Shed), Err(AccessError::NotOpen)) => {}
            (Purpose::Read { ticket, offset, len, slot }, Ok(AccessOutcome::Read)) => {
                let bytes = self.buffer.window().part(slot * READ_MAX, len).to_vec();
                self.model.read(owner, &ticket, offset, &bytes);
            }
            (Purpose::Write { index }, Ok(AccessOutcome::Written)) => self.model.written(owner, index),
            (Purpose::Add { ticket, word }, Ok(AccessOutcome::Old(old))) => {
                self.model.added(owner, &ticket, word, old);
            }
            (Purpose::Swap { register, expected }, Ok(AccessOutcome::Old(old))) => {
                session.seen[register] = old;
                self.model.swapped(owner, register, expected, old);
            }
            (Purpose::Shed { ticket }, Ok(AccessOutcome::Old(_))) => {
                self.model.visited_shed(owner, &ticket, true)
            }
            (Purpose::Shed { ticket }, Err(AccessError::NotOpen)) => {
                self.model.visited_shed(owner, &ticket, false);
            }
            // Whether it happened is not known, and the model allows for both.
            (_, Err(AccessError::Lost(_))) => {}
            (Purpose::Never, Err(_)) => {}
            (Purpose::Never, Ok(_)) => self.model.recorder().fail("what is not allowed is refused"),
            (_, result) => self.model.recorder().fail(format!("what is allowed is done, not {result:?}")),
        }
    }
}

impl Service for Accessor {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: LinkOrigin, _: Time) {
        self.session = Some(Session {
            link,
            owner: peer.incarnation(),
            has_asked: false,
            full: None,
            read_only: None,
            shed: None,
            under_way: BTreeMap::new(),
            seen: [0; REGISTERS],
        });
    }

    fn on_frame(&mut self, _: LinkId, _: Frame<'_>, _: Time) -> Disposition {
        Disposition::Taken
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, _: Time) {
        let Some(mut session) = self.session.take_if(|session| session.link == link) else { return };
        match session.under_way.remove(&completion.token.0) {
            Some(purpose) => self.on_end(&mut session, purpose, completion.result),
            None => self.model.recorder().fail("each operation ends once, and only what was begun"),
        }
        self.session = Some(session);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let Some(mut session) = self.session.take_if(|session| session.link == id) else { return Ok(false) };
        let mut tried = Ok(());
        let mut any = false;
        if !session.has_asked {
            any = true;
            tried = self.open(&mut session, link);
        } else if now >= self.next_at && now < self.until {
            // Now and then many at once, mostly one at a time.
            let pause = if self.random.u8(..) < 64 { 0 } else { self.random.u64(1..600) };
            self.next_at = now + Duration::from_micros(pause);
            if session.under_way.len() < DEPTH {
                any = true;
                tried = self.operate(&mut session, link);
            }
        }
        self.session = Some(session);
        match tried {
            Err(AccessError::Lost(lost)) => Err(lost),
            // Without room it is tried again when the next operation is due.
            _ => Ok(any),
        }
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        let Some(session) = self.session.take_if(|session| session.link == link) else { return };
        let left = session.under_way.len();
        self.model.recorder().expect(left == 0, || {
            format!("what was under way ends when the link is lost, but {left} operations did not")
        });
    }

    fn next_deadline(&self) -> Option<Time> {
        let has_room = |session: &Session| session.under_way.len() < DEPTH;
        let can_ask = self.session.as_ref().is_some_and(has_room) && self.next_at < self.until;
        can_ask.then_some(self.next_at)
    }
}
