//! Messages of an endpoint as a stream of bytes.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use outboard_wire::{DecodeError, Time};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::credits::{Credits, Header, KEPT};
use super::endpoint::{BATCH, Ended, Endpoint, Operation};
use super::library::Fault;
use super::preface::Preface;
use super::side::Side;
use crate::memory::Window;
use crate::stream::{Arrival, Reached};
use crate::{Loss, Violation};

/// How often a busy link looks at its socket, where news of the peer's death comes.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);
/// How often an access is looked for before its owner is woken.
const LOOKS_PER_BELL: u32 = 64;
/// How long what was sent before the end may take to arrive.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

/// An endpoint, and the socket beside it.
pub struct OfiBytes {
    pub(super) endpoint: ManuallyDrop<Endpoint>,
    pub(super) side: ManuallyDrop<Side>,
    /// Readable when either of them has something.
    pub(super) epoll: OwnedFd,
    pub(super) credits: Credits,
    /// The longest message that both sides have places for.
    pub(super) message_bytes: usize,
    /// Slots to send from that are free.
    pub(super) free: Vec<usize>,
    /// Filled slots that the provider has not taken yet, with their lengths.
    pub(super) leaving: VecDeque<(usize, usize)>,
    /// Slots that the provider has not taken back yet, and whether the peer waits for them.
    pub(super) unposted: Vec<(usize, bool)>,
    /// Messages that have arrived, by their number: slot and length.
    pub(super) arrived: Vec<Option<(usize, usize)>>,
    /// The number of the message that is read next, and how much of it was.
    pub(super) next: u64,
    pub(super) read: usize,
    pub(super) ended: Vec<Ended>,
    /// Accesses that have ended and were not told of.
    pub(super) reached: VecDeque<Reached>,
    /// Whether regions that change while they are read are lent too.
    pub(super) lends_all: bool,
    /// The provider has refused an access: no more are tried.
    pub(super) is_unreachable: bool,
    /// How often something was looked for in vain while accesses were under way.
    pub(super) looks: u32,
    pub(super) peer_wants_bells: bool,
    pub(super) is_handshake: bool,
    pub(super) next_look: Time,
    pub(super) now: Time,
    /// The fabric has failed, and until when the socket may say why.
    pub(super) failure: Option<(Loss, Option<Time>)>,
    pub(super) is_finished: bool,
}

impl OfiBytes {
    /// A stream between two endpoints that know each other. Everything is posted already.
    pub(super) fn new(
        (endpoint, lends_all): (Endpoint, bool),
        side: Side,
        epoll: OwnedFd,
        peer: &Preface,
    ) -> Self {
        let sizes = endpoint.sizes();
        Self {
            credits: Credits::new(sizes.receives, peer.slots),
            message_bytes: sizes.slot_bytes.min(peer.slot_bytes),
            free: (0..sizes.sends).collect(),
            leaving: VecDeque::with_capacity(sizes.sends),
            unposted: Vec::with_capacity(sizes.receives),
            arrived: vec![None; sizes.receives],
            next: 0,
            read: 0,
            ended: Vec::with_capacity(BATCH),
            reached: VecDeque::with_capacity(sizes.accesses),
            lends_all,
            is_unreachable: false,
            looks: 0,
            peer_wants_bells: peer.wants_bells,
            is_handshake: true,
            next_look: Time::ZERO,
            now: Time::ZERO,
            failure: None,
            is_finished: false,
            endpoint: ManuallyDrop::new(endpoint),
            side: ManuallyDrop::new(side),
            epoll,
        }
    }

    fn fail(&mut self, loss: Loss) {
        if self.failure.is_none() {
            self.failure = Some((loss, None));
        }
    }

    /// Takes what has ended and posts what can be posted.
    pub(super) fn turn(&mut self) -> Result<(), Loss> {
        loop {
            let mut ended = std::mem::take(&mut self.ended);
            let polled = self.endpoint.poll(&mut ended);
            let count = ended.len();
            let mut noted = Ok(());
            for end in ended.drain(..) {
                noted = noted.and_then(|()| self.note(end));
            }
            self.ended = ended;
            noted?;
            if let Err(fault) = polled {
                self.fail(lost(fault));
            }
            if count < BATCH {
                break;
            }
        }
        self.post();
        Ok(())
    }

    fn note(&mut self, Ended { operation, result }: Ended) -> Result<(), Violation> {
        match (operation, result) {
            (Operation::Send(slot), result) => {
                self.free.push(slot);
                if let Err(source) = result {
                    self.fail(Loss::System { call: "fi_sendmsg", source });
                }
            }
            (Operation::Receive(slot), Ok(len)) => self.arrive(slot, len)?,
            (Operation::Receive(_), Err(source)) => self.fail(Loss::System { call: "fi_recv", source }),
            (Operation::Access(number), result) => {
                self.endpoint.accesses.end(number, result.is_ok());
                // Numbers are those of operations, of which there are 256.
                self.reached.push_back(Reached { number: number as u16, is_done: result.is_ok() });
            }
        }
        Ok(())
    }

    /// A message is here. Messages are read by their numbers, whatever order they are told of in.
    fn arrive(&mut self, slot: usize, len: usize) -> Result<(), Violation> {
        let message = self.endpoint.received(slot);
        let available = message.len() as u64;
        let message = message.get(..len).ok_or(Violation::Oversize { len: len as u64, available })?;
        let (header, _) = Header::read_from_prefix(message)
            .map_err(|_| DecodeError::BadValue { what: "length of a message", value: len as u64 })?;
        let sequence = self.credits.take(&header)?;
        let ahead = sequence.wrapping_sub(self.next as u32);
        let place = (self.next + u64::from(ahead)) as usize % self.arrived.len();
        if ahead as usize >= self.arrived.len() || self.arrived[place].is_some() {
            return Err(DecodeError::BadValue { what: "number of a message", value: sequence.into() }.into());
        }
        self.arrived[place] = Some((slot, len));
        Ok(())
    }

    /// Gives the provider what it had no room for, and pays what is owed.
    pub(super) fn post(&mut self) {
        if self.failure.is_some() {
            return;
        }
        while let Some((slot, is_awaited)) = self.unposted.last().copied() {
            match self.endpoint.receive(slot) {
                Ok(true) => {
                    self.unposted.pop();
                    if is_awaited {
                        self.credits.freed();
                    }
                }
                Ok(false) => break,
                Err(fault) => return self.fail(lost(fault)),
            }
        }
        if self.credits.is_indebted()
            && !self.is_finished
            && let Some(slot) = self.free.pop()
        {
            let header = self.credits.next(false);
            self.endpoint.send_slot(slot).write(0, header.as_bytes());
            self.leaving.push_back((slot, Header::LEN));
        }
        self.submit();
    }

    /// Gives filled slots to the provider, in batches.
    fn submit(&mut self) {
        let mut has_left = false;
        while let Some((slot, len)) = self.leaving.front().copied() {
            match self.endpoint.send(slot, len, self.leaving.len() > 1) {
                Ok(true) => {
                    self.leaving.pop_front();
                    has_left = true;
                }
                Ok(false) => break,
                Err(fault) => {
                    self.fail(lost(fault));
                    break;
                }
            }
        }
        let is_waiting = self.is_handshake && !self.leaving.is_empty();
        if is_waiting || (has_left && (self.peer_wants_bells || self.is_handshake)) {
            self.side.ring();
        }
    }

    /// Takes as much as may be on its way now, from two pieces that lie one behind the other.
    pub(super) fn put(&mut self, head: Window<'_>, body: Window<'_>) -> Result<usize, Loss> {
        let total = head.len() + body.len();
        if self.endpoint.accesses.writes > 0 && !self.endpoint.offer().orders_writes {
            // What is sent now would overtake them.
            self.turn()?;
            if self.endpoint.accesses.writes > 0 {
                return Ok(0);
            }
        }
        if self.free.len() <= KEPT || !self.credits.has() {
            self.turn()?;
        }
        let mut taken = 0;
        while taken < total && self.free.len() > KEPT && self.credits.has() && self.failure.is_none() {
            let Some(slot) = self.free.pop() else { break };
            let len = (total - taken).min(self.message_bytes - Header::LEN);
            let header = self.credits.next(true);
            let mut place = self.endpoint.send_slot(slot);
            place.write(0, header.as_bytes());
            let from_head = head.len().saturating_sub(taken).min(len);
            if from_head > 0 {
                place.write_window(Header::LEN, head.part(taken, from_head));
            }
            if from_head < len {
                let at = (taken + from_head) - head.len();
                place.write_window(Header::LEN + from_head, body.part(at, len - from_head));
            }
            self.leaving.push_back((slot, Header::LEN + len));
            taken += len;
        }
        self.submit();
        Ok(taken)
    }

    /// Hands out what has arrived, piece by piece, to `sink`, which takes up to `room` bytes in all.
    fn take(&mut self, room: usize, mut sink: impl FnMut(usize, &[u8])) -> usize {
        let mut taken = 0;
        let count = self.arrived.len();
        while let Some((slot, len)) = self.arrived[self.next as usize % count] {
            let bytes = &self.endpoint.received(slot)[Header::LEN + self.read..len];
            let part = bytes.len().min(room - taken);
            sink(taken, &bytes[..part]);
            taken += part;
            self.read += part;
            if part < bytes.len() {
                break;
            }
            self.arrived[self.next as usize % count] = None;
            self.unposted.push((slot, len > Header::LEN));
            self.next += 1;
            self.read = 0;
        }
        taken
    }

    /// Lets everything move, and hands out what has arrived.
    pub(super) fn advance(
        &mut self,
        now: Time,
        room: usize,
        sink: impl FnMut(usize, &[u8]),
    ) -> Result<Arrival, Loss> {
        self.now = now;
        if self.is_handshake || now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            self.side.look()?;
        }
        self.turn()?;
        self.wake_owner();
        match self.take(room, sink) {
            0 => self.ending(now),
            taken => {
                // The places are given back at once: the peer may be waiting for them.
                self.post();
                Ok(Arrival::Bytes(taken))
            }
        }
    }

    /// An owner that sleeps may have to do its part of an access.
    pub(super) fn wake_owner(&mut self) {
        if self.endpoint.accesses.under_way == 0 || !self.peer_wants_bells {
            self.looks = 0;
            return;
        }
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS_PER_BELL) {
            self.side.ring();
        }
    }

    /// Whether this is the end: nothing has arrived.
    fn ending(&mut self, now: Time) -> Result<Arrival, Loss> {
        let is_complete = match self.side.total() {
            Some(total) => self.next >= total,
            None => true,
        };
        if self.side.is_over() && is_complete {
            return Ok(Arrival::End);
        }
        if self.side.is_over() && self.failure.is_none() {
            self.fail(Loss::Gone);
        }
        let Some((loss, until)) = &mut self.failure else { return Ok(Arrival::Nothing) };
        let until = *until.get_or_insert(now + FAREWELL_TIME);
        if now < until { Ok(Arrival::Nothing) } else { Err(loss.clone()) }
    }
}

fn lost(Fault { call, source }: Fault) -> Loss {
    Loss::System { call, source }
}

/// What a link sleeps on: the socket, and later the endpoint.
pub(super) fn new_epoll(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, socket, EventData::new_u64(0), EventFlags::IN | EventFlags::RDHUP)?;
    Ok(epoll)
}

/// Adds the endpoint, if its provider can wake anybody.
pub(super) fn watch(epoll: &OwnedFd, endpoint: &Endpoint) -> Result<(), Errno> {
    match endpoint.wait_descriptor() {
        Some(descriptor) => epoll::add(epoll, descriptor, EventData::new_u64(1), EventFlags::IN),
        None => Ok(()),
    }
}
