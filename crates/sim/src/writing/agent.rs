//! The agent: it passes on what writers unload.

use outboard_driver::{LinkId, LinkOrigin, Outbox, Service};
use outboard_link::{Disposition, Frame, Link, LinkError, Peer, RemoteMemory};
use outboard_wire::Time;
use outboard_writing::Relay;

/// An agent that passes on.
#[derive(Default)]
pub(super) struct Agent {
    relay: Relay,
    outbox: Outbox,
}

impl Service for Agent {
    type Note = ();

    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, _: Time) {
        if matches!(origin, LinkOrigin::Dialled(_)) {
            self.relay.on_dialled(link, peer);
        }
    }

    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, _: Time) -> Disposition {
        self.relay.on_frame(link, &frame, &mut self.outbox)
    }

    fn send<L: Link + RemoteMemory>(&mut self, id: LinkId, link: &mut L, _: Time) -> Result<bool, LinkError> {
        self.outbox.send(id, link)
    }

    fn on_lost(&mut self, link: LinkId, _: &LinkError, _: Time) {
        self.outbox.forget(link);
        self.relay.on_lost(link, &mut self.outbox);
    }
}
