//! Messages of an endpoint as a stream of bytes.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use outboard_wire::{DecodeError, Time};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::credits::{Credits, Header, KEPT};
use super::departed;
use super::endpoint::{BATCH, Ended, Endpoint, Operation};
use super::library::Fault;
use super::preface::Preface;
use super::side::Side;
use crate::memory::Window;
use crate::stream::{Arrival, ByteStream, Scatter};
use crate::{Clock, Loss, Violation};

/// How often a busy link looks at its socket, where news of the peer's death comes.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);
/// When to try again what the provider had no room for.
const RETRY: Duration = Duration::from_micros(200);
/// How long what was sent before the end may take to arrive.
const FAREWELL_TIME: Duration = Duration::from_secs(1);
/// How long the last messages may take to leave when a link is dropped.
const PARTING_TIME: Duration = Duration::from_millis(200);

/// An endpoint, and the socket beside it.
pub struct OfiBytes {
    endpoint: ManuallyDrop<Endpoint>,
    side: ManuallyDrop<Side>,
    /// Readable when either of them has something.
    epoll: OwnedFd,
    credits: Credits,
    /// The longest message that both sides have places for.
    message_bytes: usize,
    /// Slots to send from that are free.
    free: Vec<usize>,
    /// Filled slots that the provider has not taken yet, with their lengths.
    leaving: VecDeque<(usize, usize)>,
    /// Slots that the provider has not taken back yet, and whether the peer waits for them.
    unposted: Vec<(usize, bool)>,
    /// Messages that have arrived, by their number: slot and length.
    arrived: Vec<Option<(usize, usize)>>,
    /// The number of the message that is read next, and how much of it was.
    next: u64,
    read: usize,
    ended: Vec<Ended>,
    peer_wants_bells: bool,
    is_handshake: bool,
    next_look: Time,
    now: Time,
    /// The fabric has failed, and until when the socket may say why.
    failure: Option<(Loss, Option<Time>)>,
    is_finished: bool,
}

impl OfiBytes {
    /// A stream between two endpoints that know each other. Everything is posted already.
    pub(super) fn new(endpoint: Endpoint, side: Side, epoll: OwnedFd, peer: &Preface) -> Self {
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
    fn turn(&mut self) -> Result<(), Loss> {
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
            (Operation::Access(_), _) => {}
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
    fn post(&mut self) {
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
    fn put(&mut self, head: Window<'_>, body: Window<'_>) -> Result<usize, Loss> {
        let total = head.len() + body.len();
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
    fn advance(&mut self, now: Time, room: usize, sink: impl FnMut(usize, &[u8])) -> Result<Arrival, Loss> {
        self.now = now;
        if self.is_handshake || now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            self.side.look()?;
        }
        self.turn()?;
        match self.take(room, sink) {
            0 => self.ending(now),
            taken => {
                // The places are given back at once: the peer may be waiting for them.
                self.post();
                Ok(Arrival::Bytes(taken))
            }
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

impl ByteStream for OfiBytes {
    const NAME: &'static str = "ofi";

    fn begin_records(&mut self) {
        self.is_handshake = false;
    }

    fn send(&mut self, _now: Time, bytes: &[u8]) -> Result<usize, Loss> {
        self.put(Window::from(bytes), Window::from(&[][..]))
    }

    fn receive(&mut self, now: Time, into: &mut [u8]) -> Result<Arrival, Loss> {
        self.advance(now, into.len(), |at, bytes| into[at..at + bytes.len()].copy_from_slice(bytes))
    }

    fn send_gathered(&mut self, _now: Time, head: &[u8], body: Window<'_>) -> Result<usize, Loss> {
        self.put(Window::from(head), body)
    }

    fn receive_scattered(&mut self, now: Time, mut into: Scatter<'_>) -> Result<Arrival, Loss> {
        self.advance(now, into.len(), |at, bytes| into.write(at, bytes))
    }

    /// Lets the last messages leave, if they do so soon: closing an endpoint forgets what it has not sent.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let clock = Clock::start();
        let sends = self.endpoint.sizes().sends;
        while self.free.len() < sends && self.failure.is_none() && !self.side.is_over() {
            if self.turn().is_err() || self.side.look().is_err() || clock.now() >= Time::ZERO + PARTING_TIME {
                break;
            }
        }
        let _ = self.side.look();
        self.side.part(self.credits.sent());
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }

    fn next_event(&self) -> Option<Time> {
        let waits = !self.leaving.is_empty() || !self.unposted.is_empty() || self.failure.is_some();
        waits.then(|| self.now + RETRY)
    }

    fn prepare_to_wait(&mut self) -> bool {
        // What goes wrong is found again, and told, by whoever receives.
        if self.side.look().is_err() || self.turn().is_err() {
            return false;
        }
        let has_message = self.arrived[self.next as usize % self.arrived.len()].is_some();
        let is_over = self.side.is_over() && self.failure.is_none();
        !has_message && !is_over && (self.endpoint.wait_descriptor().is_none() || self.endpoint.may_sleep())
    }
}

impl Drop for OfiBytes {
    fn drop(&mut self) {
        self.finish();
        // SAFETY: taken once, because nothing is used after it was dropped.
        let (endpoint, side) =
            unsafe { (ManuallyDrop::take(&mut self.endpoint), ManuallyDrop::take(&mut self.side)) };
        departed::keep(endpoint, side);
    }
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
