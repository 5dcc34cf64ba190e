//! An agent: the desk of the product, which runs calls of its clients on the servers' memory, by one-sided accesses that take long
//! and are torn.

use outboard_calling::{AgentDesk, Ambient, ExecutorConfig, LaneWork, SharedCalls, TableLimits};
use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::{Completion, Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::Time;
use outboard_wire::calling::{CallerId, is_calling};

use fastrand::Rng;

/// Looks at functions at once, in the only thread that there is.
pub(super) fn look_at_once(work: LaneWork) {
    work.run(|_, look| {
        look();
        Ok(())
    });
}

/// The functions and callers of a daemon that has just started.
pub(super) fn shared_calls() -> std::sync::Arc<SharedCalls> {
    SharedCalls::new(TableLimits::default(), |_| {}, look_at_once)
}

/// A name that is unlike others.
pub(super) fn draw_caller(random: &mut Rng) -> CallerId {
    CallerId(std::array::from_fn(|_| random.u8(..)))
}

/// The surroundings of functions besides regions.
pub(super) fn ambient(random: &mut Rng) -> Ambient {
    Ambient::new(random.u64(..), || 0, |_| {})
}

/// An agent. It forgets everything when it crashes, and its clients' calls when their server is lost.
pub(super) struct Agent {
    random: Rng,
    desk: AgentDesk,
    outbox: Outbox,
}

impl Agent {
    pub(super) fn new(random: Rng) -> Self {
        let desk = AgentDesk::new(shared_calls(), ExecutorConfig::default());
        Self { random, desk, outbox: Outbox::default() }
    }
}

impl Service for Agent {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _: Time) {
        if matches!(origin, LinkOrigin::Dialled(_)) {
            let known_as = (draw_caller(&mut self.random), ambient(&mut self.random));
            self.desk.on_dialled(link, peer, known_as, &mut self.outbox);
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition {
        if !self.outbox.has_room(link) {
            return Disposition::Deferred;
        }
        if is_calling(frame.head.kind) {
            return self.desk.on_frame((link, frame, now), &mut self.outbox);
        }
        // The only other question that callers have.
        self.outbox.push_copy(link, frame.head, &frame.payload.to_vec());
        Disposition::Taken
    }

    fn on_completion(&mut self, link: LinkId, completion: Completion, _: Time) {
        self.desk.on_completion(link, &completion);
    }

    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError> {
        let moved = self.desk.send(id, link, now, &mut self.outbox)?;
        Ok(self.outbox.send(id, link)? | moved)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.outbox.forget(link);
        self.desk.on_lost(link, &mut self.outbox);
    }
}
