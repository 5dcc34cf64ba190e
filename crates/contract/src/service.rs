//! What a process does with its links.

use std::time::Duration;

use outboard_wire::Time;

use crate::{Completion, Disposition, Frame, Link, LinkError, LinkId, LinkOrigin, Peer, RemoteMemory};

/// The state machines that one worker thread runs over its links. Nothing here may block.
pub trait Service {
    /// What other threads may tell this service; use `()` if nothing.
    type Note: Send + 'static;

    /// Another thread has sent a note through the worker's handle.
    fn on_note(&mut self, _note: Self::Note, _now: Time) {}

    /// The worker has slept, on its links and on what else wakes it, and has seen whether that other has anything to read. If
    /// not, the next [`on_turn`](Service::on_turn) need not look for it.
    fn polled(&mut self, _has_something: bool) {}

    /// Whether the worker goes on looking for work though there was none for so long, where looking costs nothing but time; `None`
    /// leaves that to its settings.
    fn looks_on(&mut self, _idle: Duration) -> Option<bool> {
        None
    }

    /// Does work that comes from elsewhere than links and notes. Called in every turn, before the links have theirs.
    /// Returns whether there was any.
    fn on_turn(&mut self, _now: Time) -> bool {
        false
    }

    /// A link is open.
    fn on_open(&mut self, link: LinkId, peer: &Peer, origin: LinkOrigin, now: Time);

    /// A frame has arrived. What is to be sent in return waits for [`send`](Service::send).
    fn on_frame(&mut self, link: LinkId, frame: Frame<'_>, now: Time) -> Disposition;

    /// A one-sided operation has ended.
    fn on_completion(&mut self, _link: LinkId, _completion: Completion, _now: Time) {}

    /// Puts what is due for this link into it, as far as it has room. Returns whether anything was sent.
    fn send<L: Link + RemoteMemory>(
        &mut self,
        id: LinkId,
        link: &mut L,
        now: Time,
    ) -> Result<bool, LinkError>;

    /// Adds the links for which [`send`](Service::send) may have something to do though nothing arrives on them. Returns
    /// false if that is not known: then every link has every turn. Otherwise those that have been quiet for a while have
    /// none until they are named here, or something happens to them.
    fn rouse(&mut self, _links: &mut Vec<LinkId>) -> bool {
        false
    }

    /// A link is gone. Every one-sided operation on it has ended before, those under way with the loss.
    fn on_lost(&mut self, link: LinkId, error: &LinkError, now: Time);

    /// When [`on_time`](Service::on_time) is due.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Time has passed.
    fn on_time(&mut self, _now: Time) {}
}
