//! Who drains what is unloaded: an agent, the server itself, or, where the server takes nothing, the writer by the other path.

use std::time::Duration;

use outboard_contract::memory::Window;
use outboard_contract::{AccessError, Link, RemoteMemory, Token};
use outboard_wire::writing::{LEAVE, Leave};
use outboard_wire::{FrameHead, Time, mutant};

use super::slot::fault_of;
use super::{Initiator, send};

impl Initiator {
    pub(super) fn strand(&mut self, pause: Duration) {
        self.writer.strand();
        self.attach_after = self.now + pause;
    }

    /// Whether the agent that drains has been awaited for too long. A process that is stopped loses no link.
    pub(super) fn is_relay_silent(&mut self, has_answered: bool) -> bool {
        let is_awaited = !self.writer.is_attached() || self.writer.has_unloaded();
        if has_answered || !is_awaited || !self.has_relay {
            self.awaited_since = None;
            return false;
        }
        let since = *self.awaited_since.get_or_insert(self.now);
        self.now.since(since) >= self.relay_patience && !mutant("writing.silence-unnoticed")
    }

    /// The agent does not drain any more: the server itself has to.
    pub fn relay_lost(&mut self) {
        if self.has_relay {
            self.drain_by(false);
        }
    }

    /// Has what is unloaded drained by another agent from now on, or by the server itself.
    pub fn drain_by(&mut self, has_relay: bool) {
        self.has_relay = has_relay;
        self.has_relay_answered = false;
        self.awaited_since = None;
        // If the server does not know the writer, that comes first.
        if !self.writer.is_stranded() {
            self.attach();
        }
    }

    fn attach(&mut self) {
        self.writer.attach(self.server.incarnation());
        self.is_introduced = false;
    }

    /// Offloads what the server did not take, in order, and when all of it has begun, comes under another name. Returns whether
    /// anything was begun.
    pub(super) fn go_ashore<L: RemoteMemory>(&mut self, link: &mut L) -> bool {
        let mut moved = false;
        while let Some(stranded) = self.writer.next_stranded(self.now) {
            moved = true;
            let span = stranded.span;
            let begun = match self.slots.get(span.slot as usize) {
                Some(Some(slot)) => {
                    let bytes = Window::from(self.writer.stranded_bytes(&stranded));
                    link.write(slot.open, span.offset, bytes, Token(stranded.token))
                }
                _ => Err(AccessError::NotOpen),
            };
            if let Err(AccessError::Full) = begun {
                self.writer.not_moved(&stranded);
                return false;
            }
            self.writer.moved();
            if let Err(error) = begun {
                self.writer.offloaded(self.now, stranded.token, Err(fault_of(&error)));
            }
            self.collect(link);
        }
        if self.writer.is_stranded() && !self.writer.has_unloaded() && self.now >= self.attach_after {
            self.renew();
        }
        moved
    }

    fn renew(&mut self) {
        self.leaving = Some(Leave { writer: self.identity, attempt: self.writer.attempt() });
        self.identity = (self.draw)();
        self.writer.renew(self.identity);
        self.attach();
    }

    /// Tells the drainer that the writer is done, if it is.
    pub fn leave<K: Link>(&self, link: &mut K) {
        if self.lost.is_none() && self.writer.is_idle() {
            let leave = Leave { writer: self.identity, attempt: self.writer.attempt() };
            // A server that does not hear it forgets the writer later.
            let _ = send(link, FrameHead::new(LEAVE), &[&leave.encode()]);
        }
    }

    /// When something has to be done even if no peer says anything.
    pub fn next_deadline(&self) -> Option<Time> {
        let is_waiting = self.writer.is_stranded() && !self.writer.has_unloaded();
        let silent = self.awaited_since.map(|since| since + self.relay_patience);
        is_waiting.then_some(self.attach_after).into_iter().chain(silent).min()
    }
}
