//! A process that is stopped for a while though its links live, as one within the machine may be.

use std::time::Duration;

use fastrand::Rng;
use outboard_driver::{LinkId, LinkOrigin, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::Time;

/// When a machine falls silent, and for how long.
pub(crate) type Silence = (Duration, Duration);

/// A silence within a storm, which ends or does not, in one of four runs.
pub(crate) fn draw(random: &mut Rng) -> Option<Silence> {
    let (begin, len) = draw_short(random)?;
    Some((begin, [len, Duration::from_secs(60)][random.usize(..2)]))
}

/// Only one that ends, for processes whose peers wait for them.
pub(crate) fn draw_short(random: &mut Rng) -> Option<Silence> {
    (random.u8(..4) == 0).then(|| {
        let len = Duration::from_millis(random.u64(1..300));
        (Duration::from_millis(random.u64(5..100)), len)
    })
}

/// A machine that takes no frames for a while.
pub(crate) struct Silent<S> {
    machine: S,
    /// From when on, and until when.
    span: Option<(Time, Time)>,
}

impl<S> Silent<S> {
    /// The machine, with its silence if it has one.
    pub(crate) fn new(machine: S, silence: Option<Silence>) -> Self {
        let span = silence.map(|(after, len)| (Time::ZERO + after, Time::ZERO + after + len));
        Self { machine, span }
    }

    /// The machine.
    pub(crate) fn machine(&self) -> &S {
        &self.machine
    }

    fn is_silent(&self, now: Time) -> bool {
        self.span.is_some_and(|(from, until)| from <= now && now < until)
    }
}

impl<S: Service> Service for Silent<S> {
    type Note = S::Note;

    fn on_turn(&mut self, now: Time) -> bool {
        self.machine.on_turn(now)
    }

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time) {
        self.machine.on_open(link, peer, origin, now);
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if self.is_silent(now) {
            return Disposition::Deferred;
        }
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
        if self.is_silent(now) {
            return Ok(false);
        }
        self.machine.send(id, link, now)
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
