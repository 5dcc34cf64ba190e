//! Messages of an endpoint as a stream of bytes.

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use outboard_wire::Time;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use super::OfiConfig;
use super::credits::{Content, Credits, Header};
use super::endpoint::{BATCH, Ended, Endpoint, Far, Operation};
use super::landing::{FarLanding, Grant};
use super::library::FabricFault;
use super::preface::Preface;
use super::setbacks::Setbacks;
use super::side::Side;
use super::withdrawal::Withdrawal;
use crate::memory::Window;
use crate::stream::{Arrival, Reached};
use crate::{Loss, Violation};

/// How often a busy link looks at its socket, where news of the peer's death comes.
const LOOK_INTERVAL: Duration = Duration::from_micros(100);
/// How often an access is looked for before its owner is woken.
const LOOKS_PER_BELL: u32 = 64;
/// How long what was sent before the end may take to arrive.
const FAREWELL_TIME: Duration = Duration::from_secs(1);

/// Where a message lies that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whereabouts {
    /// In a slot that was there to receive it.
    Slot(usize),
    /// In a place that the peer has written to.
    Place(usize),
    /// In a slot; it has to say something else when everything before it was read.
    Word(usize, Content),
}

/// The words of one side to the other about long messages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    Landing(Grant),
    Withdrawal,
    Release,
}

/// A message on its way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) slot: usize,
    pub(super) len: usize,
    /// Where it is written to, and what tells of it. Otherwise it is sent.
    pub(super) to: Option<(Far, u32)>,
}

/// An endpoint, and the socket beside it.
pub struct OfiBytes {
    pub(super) endpoint: ManuallyDrop<Endpoint>,
    pub(super) side: ManuallyDrop<Side>,
    /// Readable when either of them has something.
    pub(super) epoll: OwnedFd,
    pub(super) credits: Credits,
    /// The longest message that both sides have places for.
    pub(super) message_bytes: usize,
    /// Where longer ones are written to, once the peer has said so.
    pub(super) far: Option<FarLanding>,
    /// How much memory all links of this process may have for long messages.
    pub(super) pool_bytes: usize,
    /// The news of landings that has to be sent, of ours and the peer's.
    pub(super) unsaid: VecDeque<Word>,
    /// When the peer last wrote to ours, or could for the first time, and whether it ever did.
    pub(super) landing_used: Time,
    pub(super) is_landing_used: bool,
    /// Ours is to be given back.
    pub(super) withdrawal: Option<Withdrawal>,
    /// How often ours could not be made, or was of no use.
    pub(super) landing_setbacks: Setbacks,
    /// When the last long message of ours had left.
    pub(super) long_used: Time,
    /// How often there was no memory that they could leave from.
    pub(super) long_setbacks: Setbacks,
    /// How long the peer may take to answer what it has read.
    pub(super) deadline: Duration,
    /// Slots to send from that are free.
    pub(super) free: Vec<usize>,
    /// Filled slots that the provider has not taken yet.
    pub(super) leaving: VecDeque<Leaving>,
    /// Slots that the provider has not taken back yet, and whether the peer waits for them.
    pub(super) unposted: Vec<(usize, bool)>,
    /// Messages that have arrived, by their number, with their lengths.
    pub(super) arrived: Vec<Option<(Whereabouts, usize)>>,
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
        endpoint: Endpoint,
        config: &OfiConfig,
        side: Side,
        epoll: OwnedFd,
        peer: &Preface,
    ) -> Self {
        let sizes = endpoint.sizes();
        Self {
            credits: Credits::new(sizes.receives, peer.slots),
            message_bytes: sizes.short_bytes.min(peer.slot_bytes),
            far: None,
            pool_bytes: config.pool_bytes,
            unsaid: VecDeque::new(),
            landing_used: Time::ZERO,
            is_landing_used: false,
            withdrawal: None,
            landing_setbacks: Setbacks::NONE,
            long_used: Time::ZERO,
            long_setbacks: Setbacks::NONE,
            deadline: config.stream.deadline,
            free: (0..sizes.sends).collect(),
            leaving: VecDeque::with_capacity(sizes.sends),
            unposted: Vec::with_capacity(sizes.receives),
            arrived: vec![None; sizes.receives],
            next: 0,
            read: 0,
            ended: Vec::with_capacity(BATCH),
            reached: VecDeque::with_capacity(sizes.accesses),
            lends_all: config.lends_all,
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

    pub(super) fn fail(&mut self, loss: Loss) {
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
        let sends = self.endpoint.sizes().sends;
        match (operation, result) {
            (Operation::Send(slot), result) => {
                let call = match (&mut self.endpoint.long, slot.checked_sub(sends)) {
                    (Some(long), Some(number)) => {
                        long.put_back(number);
                        self.long_used = self.now;
                        self.endpoint.long.take_if(|long| self.far.is_none() && long.is_idle());
                        "fi_writemsg"
                    }
                    _ => {
                        self.free.push(slot);
                        "fi_sendmsg"
                    }
                };
                if let Err(source) = result {
                    self.fail(Loss::System { call, source });
                }
            }
            (Operation::Receive(slot), Ok(len)) => self.receive_in(slot, len)?,
            (Operation::Told(note), _) => self.be_told(note)?,
            (Operation::Receive(_), Err(source)) => self.fail(Loss::System { call: "fi_recv", source }),
            (Operation::Access(number), result) => {
                self.endpoint.accesses.end(number, result.is_ok());
                // Numbers are those of operations, of which there are 256.
                self.reached.push_back(Reached { number: number as u16, is_done: result.is_ok() });
            }
        }
        Ok(())
    }

    /// Hands out what has arrived, piece by piece, to `sink`, which takes up to `room` bytes in all.
    fn take(&mut self, room: usize, mut sink: impl FnMut(usize, Window<'_>)) -> usize {
        let mut taken = 0;
        let count = self.arrived.len();
        while let Some((at, len)) = self.arrived[self.next as usize % count] {
            let message = match (at, &self.endpoint.landing) {
                (Whereabouts::Slot(slot) | Whereabouts::Word(slot, _), _) => {
                    Window::from(self.endpoint.received(slot))
                }
                (Whereabouts::Place(place), Some(landing)) => landing.message(place, len),
                (Whereabouts::Place(_), None) => break,
            };
            let left = len - Header::LEN - self.read;
            let part = left.min(room - taken);
            sink(taken, message.part(Header::LEN + self.read, part));
            taken += part;
            self.read += part;
            if part < left {
                break;
            }
            self.arrived[self.next as usize % count] = None;
            match at {
                Whereabouts::Slot(slot) => self.unposted.push((slot, len > Header::LEN)),
                Whereabouts::Place(_) => self.credits.freed(),
                Whereabouts::Word(slot, content) => {
                    self.unposted.push((slot, false));
                    self.obey(content);
                }
            }
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
        sink: impl FnMut(usize, Window<'_>),
    ) -> Result<Arrival, Loss> {
        self.now = now;
        if self.is_handshake || now >= self.next_look {
            self.next_look = now + LOOK_INTERVAL;
            self.side.look()?;
            self.give_up_idle();
        }
        self.turn()?;
        self.wake_owner();
        match self.take(room, sink) {
            0 => {
                self.await_release()?;
                self.ending(now)
            }
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

pub(super) fn lost(FabricFault { call, source }: FabricFault) -> Loss {
    Loss::System { call, source }
}

/// The descriptors that a link sleeps on: the socket, and later the endpoint.
pub(super) fn new_epoll(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, socket, EventData::new_u64(0), EventFlags::IN | EventFlags::RDHUP)?;
    Ok(epoll)
}

/// Adds the endpoint, if its provider can wake a sleeper.
pub(super) fn watch(epoll: &OwnedFd, endpoint: &Endpoint) -> Result<(), Errno> {
    match endpoint.wait_descriptor() {
        Some(descriptor) => epoll::add(epoll, descriptor, EventData::new_u64(1), EventFlags::IN),
        None => Ok(()),
    }
}
