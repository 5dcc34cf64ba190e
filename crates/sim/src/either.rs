//! One of two services, so that nodes of different kinds share a world.

use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::Time;

/// One of two services.
pub enum Either<A, B> {
    /// The one.
    One(A),
    /// The other.
    Other(B),
}

macro_rules! both {
    ($self:expr, $service:ident => $call:expr) => {
        match $self {
            Either::One($service) => $call,
            Either::Other($service) => $call,
        }
    };
}

impl<A: Service, B: Service> Service for Either<A, B> {
    type Note = Either<A::Note, B::Note>;

    fn on_note(&mut self, note: Self::Note, now: Time) {
        match (self, note) {
            (Self::One(service), Either::One(note)) => service.on_note(note, now),
            (Self::Other(service), Either::Other(note)) => service.on_note(note, now),
            // A note for the other kind of node has come to the wrong address.
            (Self::One(_), Either::Other(_)) | (Self::Other(_), Either::One(_)) => {}
        }
    }

    fn on_turn(&mut self, now: Time) -> bool {
        both!(self, service => service.on_turn(now))
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        both!(self, service => service.on_open(link, peer, origin, now));
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        both!(self, service => service.on_frame(link, frame, now))
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        both!(self, service => service.on_completion(link, completion, now));
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        both!(self, service => service.send(id, link, now))
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        both!(self, service => service.on_lost(link, error, now));
    }

    fn next_deadline(&self) -> Option<Time> {
        both!(self, service => service.next_deadline())
    }

    fn on_time(&mut self, now: Time) {
        both!(self, service => service.on_time(now));
    }
}
