//! The side that has messages to hand over.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, Origin, Service};
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, RemoteMemory, SendError};
use outboard_wire::{Incarnation, Time};

use super::ledger::Ledger;
use super::parcel::{Parcel, RECEIPT, Receipt};
use crate::{Boot, LINK_DEADLINE};

/// How many messages a source keeps at most. When they are all on their way, the application has to wait.
pub(super) const RETAINED_MAX: usize = 16;
/// How long without a receipt until everything kept is sent again.
const RESEND: Duration = Duration::from_millis(8);
/// How long without a receipt until the link is given up.
const GIVE_UP: Duration = Duration::from_millis(2 * LINK_DEADLINE.as_millis() as u64);

/// Where the parcels go at the moment.
struct Way {
    link: LinkId,
    peer: Incarnation,
    /// The next message to put on the link.
    next: u64,
    /// When the destination last showed that it goes on, or the first of what it owes was sent.
    moved_at: Time,
    /// When everything is sent again.
    resend_at: Time,
}

/// Keeps every message until the destination has it, and sends it as often as it takes.
pub(super) struct Source {
    incarnation: Incarnation,
    ledger: Ledger,
    random: Rng,
    /// How many messages the application wants to send in one life.
    quota: u64,
    /// The number of the first message kept.
    base: u64,
    retained: VecDeque<Vec<u8>>,
    way: Option<Way>,
    /// When the application has its next message.
    message_at: Time,
}

impl Source {
    pub(super) fn new(boot: Boot, quota: u64, ledger: Ledger) -> Self {
        Self {
            incarnation: boot.incarnation,
            ledger,
            random: boot.random,
            quota,
            base: 0,
            retained: VecDeque::with_capacity(RETAINED_MAX),
            way: None,
            message_at: boot.now,
        }
    }

    /// Which life of the source this is.
    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Whether the application has sent everything and all of it has arrived.
    pub(super) fn is_done(&self) -> bool {
        self.end() == self.quota && self.retained.is_empty()
    }

    /// The number of the first message that does not exist yet.
    pub(super) fn end(&self) -> u64 {
        self.base + self.retained.len() as u64
    }

    /// The application has a message.
    fn tell(&mut self, now: Time) {
        self.message_at = now + Duration::from_micros(self.random.u64(10..4000));
        if self.retained.len() == RETAINED_MAX {
            self.ledger.refused();
            return;
        }
        let len = if self.random.u8(..) < 8 { self.random.usize(..8000) } else { self.random.usize(..200) };
        let body: Vec<u8> = std::iter::repeat_with(|| self.random.u8(..)).take(len).collect();
        self.ledger.told(self.incarnation, self.end(), &body);
        self.retained.push_back(body);
    }

    fn on_receipt(&mut self, number: u64, now: Time) {
        let Some(way) = &mut self.way else { return };
        // Whoever claims to have what was never sent is not believed.
        if number <= self.base || number > way.next {
            return;
        }
        let freed = (number - self.base) as usize;
        self.retained.drain(..freed.min(self.retained.len()));
        self.base = number;
        way.moved_at = now;
        way.resend_at = now + RESEND;
        self.ledger.acknowledged(self.incarnation, number);
    }
}

impl Service for Source {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, _: Origin, now: Time) {
        let peer = peer.incarnation();
        self.way = Some(Way { link, peer, next: self.base, moved_at: now, resend_at: now + RESEND });
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        let peer = self.way.as_ref().filter(|way| way.link == link).map(|way| way.peer);
        if let (Some(peer), RECEIPT) = (peer, frame.head.kind)
            && let Some(Receipt(number)) = Receipt::decode(&frame.payload.to_vec(), peer, self.incarnation)
        {
            self.on_receipt(number, now);
        }
        Disposition::Taken
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let Some(way) = self.way.as_mut().filter(|way| way.link == id) else { return Ok(false) };
        if self.retained.is_empty() {
            way.moved_at = now;
        }
        if now.since(way.moved_at) >= GIVE_UP {
            link.close("no receipt for too long");
            return Ok(true);
        }
        let mut any = false;
        while let Some(body) = self.retained.get((way.next - self.base) as usize) {
            let parcel = Parcel { sequence: way.next, base: self.base, body: body.clone() };
            match link.send(parcel.head(), &parcel.encode(self.incarnation, way.peer)) {
                Ok(()) => (way.next, any) = (way.next + 1, true),
                Err(SendError::Lost(lost)) => return Err(lost),
                Err(_) => break,
            }
        }
        Ok(any)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.way.take_if(|way| way.link == link);
    }

    fn next_deadline(&self) -> Option<Time> {
        let message_at = (self.end() < self.quota).then_some(self.message_at);
        let resend_at = self.way.as_ref().filter(|_| !self.retained.is_empty()).map(|way| way.resend_at);
        message_at.into_iter().chain(resend_at).min()
    }

    fn on_time(&mut self, now: Time) {
        if now >= self.message_at && self.end() < self.quota {
            self.tell(now);
        }
        if let Some(way) = self.way.as_mut().filter(|way| now >= way.resend_at) {
            way.next = self.base;
            way.resend_at = now + RESEND;
        }
    }
}

#[cfg(test)]
impl Source {
    /// A mistake for the checker to find: what was sent counts as arrived.
    pub(super) fn trust_the_link(&mut self) {
        if let Some(next) = self.way.as_ref().map(|way| way.next) {
            self.on_receipt(next, Time::ZERO);
        }
    }

    /// Another: what was lost stays lost.
    pub(super) fn never_repeat(&mut self) {
        if let Some(way) = &mut self.way {
            (way.resend_at, way.moved_at) = (Time::MAX, Time::MAX);
        }
    }
}
