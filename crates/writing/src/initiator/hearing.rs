//! What the server and an agent that drains say, and what is done when they cannot be relied on.

use std::time::Duration;

use outboard_contract::memory::Window;
use outboard_contract::{AccessError, Disposition, Frame, LinkError, Loss, RemoteMemory, Token, Violation};
use outboard_wire::writing::{DRAINED, Drained, Leave, REFUSED, WriterId};
use outboard_wire::{DecodeError, Time};

use super::slot::fault_of;
use super::{Initiator, beginning};

/// How long a writer that the server has no room for waits before it asks once more.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What one end has said since the last conclusion.
#[derive(Default)]
pub(super) struct Said {
    answers: Vec<Drained>,
    refused: bool,
    unreadable: Option<DecodeError>,
}

impl Said {
    /// Takes a frame. What is said to another writer, or to an earlier attempt of this one, does not matter any more.
    fn take(&mut self, frame: &Frame<'_>, identity: WriterId, attempt: u32) -> Disposition {
        match frame.head.kind {
            DRAINED => match Drained::decode(&frame.payload.to_vec()) {
                Ok(drained) if drained.writer == identity => self.answers.push(drained),
                Ok(_) => {}
                Err(error) => self.unreadable = Some(error),
            },
            REFUSED => match Leave::decode(&frame.payload.to_vec()) {
                // An agent that has never heard of the writer knows no attempt.
                Ok(Leave { writer, attempt: to }) if writer == identity => {
                    self.refused |= to == attempt || to == 0
                }
                Ok(_) => {}
                Err(error) => self.unreadable = Some(error),
            },
            _ => {}
        }
        Disposition::Taken
    }
}

impl Initiator {
    /// The server has said something.
    pub fn on_server_frame(&mut self, frame: &Frame<'_>) -> Disposition {
        self.server_said.take(frame, self.identity, self.writer.attempt())
    }

    /// The agent that drains has said something.
    pub fn on_relay_frame(&mut self, frame: &Frame<'_>) -> Disposition {
        self.relay_said.take(frame, self.identity, self.writer.attempt())
    }

    /// Acts on what was said, and on what was not said for too long.
    ///
    /// # Errors
    /// If the server breaks the protocol: it is not to be talked to any more.
    pub fn conclude(&mut self, now: Time) -> Result<(), LinkError> {
        self.now = now;
        self.look_at = self.writer.next_id().0 + beginning::UNLOOKED_MAX;
        let server = std::mem::take(&mut self.server_said);
        self.hear_server(server)?;
        let relay = std::mem::take(&mut self.relay_said);
        let is_silent = self.is_relay_silent(!relay.answers.is_empty());
        // What cannot be true comes from an agent that is not to be believed at all.
        let is_true = relay.answers.iter().all(|answer| self.writer.drained(now, answer).is_ok());
        if relay.refused || relay.unreadable.is_some() || is_silent || !is_true {
            self.relay_lost();
        }
        Ok(())
    }

    fn hear_server(&mut self, said: Said) -> Result<(), LinkError> {
        if let Some(error) = said.unreadable {
            return Err(self.broke(error));
        }
        for answer in said.answers {
            if self.writer.drained(self.now, &answer).is_ok() {
                continue;
            }
            if self.writer.is_attached() {
                let what = "number of writes that are settled";
                return Err(self.broke(DecodeError::BadValue { what, value: answer.through }));
            }
            // It has forgotten the writer, and knows another one by its name now.
            self.strand(Duration::ZERO);
        }
        if said.refused {
            self.strand(ASK_AGAIN);
        }
        Ok(())
    }

    fn broke(&self, error: DecodeError) -> LinkError {
        LinkError { peer: self.server.clone(), loss: Loss::Broke(Violation::Nonsense(error)) }
    }

    fn strand(&mut self, pause: Duration) {
        self.writer.strand();
        self.attach_after = self.now + pause;
    }

    /// Whether the agent that drains has been awaited for too long. A process that is stopped loses no link.
    fn is_relay_silent(&mut self, has_answered: bool) -> bool {
        let is_awaited = !self.writer.is_attached() || self.writer.has_unloaded();
        if has_answered || !is_awaited || !self.has_relay {
            self.awaited_since = None;
            return false;
        }
        let since = *self.awaited_since.get_or_insert(self.now);
        self.now.since(since) >= self.relay_patience
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

    /// When something has to be done even if nobody says anything.
    pub fn next_deadline(&self) -> Option<Time> {
        let is_waiting = self.writer.is_stranded() && !self.writer.has_unloaded();
        let silent = self.awaited_since.map(|since| since + self.relay_patience);
        is_waiting.then_some(self.attach_after).into_iter().chain(silent).min()
    }
}
