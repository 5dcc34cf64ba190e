//! Machines that are wrong on purpose, so that checkers show that they can fail.

use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::Time;

/// Wraps a machine and does one thing wrong after every turn.
pub(crate) struct Wrong<S> {
    pub(crate) machine: S,
    pub(crate) mistake: fn(&mut S),
}

impl<S: Service> Service for Wrong<S> {
    type Note = S::Note;

    fn on_note(&mut self, note: S::Note, now: Time) {
        self.machine.on_note(note, now);
    }

    fn on_turn(&mut self, now: Time) -> bool {
        self.machine.on_turn(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.machine.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        self.machine.on_frame(link, frame, now)
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, now: Time) {
        self.machine.on_completion(link, completion, now);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let sent = self.machine.send(id, link, now);
        (self.mistake)(&mut self.machine);
        sent
    }

    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time) {
        self.machine.on_lost(link, error, now);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.machine.next_deadline()
    }

    fn on_time(&mut self, now: Time) {
        self.machine.on_time(now);
    }
}
