//! What the server and whoever drains say, and what is done when they cannot be relied on.

use std::time::Duration;

use outboard_link::memory::Window;
use outboard_link::{
    AccessError, Disposition, Frame, Link, LinkError, Loss, Peer, RemoteMemory, Token, Violation,
};
use outboard_wire::access::Status;
use outboard_wire::writing::{DRAINED, Drained, LEAVE, Leave, REFUSED, WriterId};
use outboard_wire::{DecodeError, FrameHead, Time};
use outboard_writing::Fault;

use super::super::draw_identity;
use super::super::regions::fault_of;
use super::super::relay::send;
use super::{FRAMES_PER_TURN, Initiator};

/// How long a writer that the server has no room for waits before it asks once more.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// What one end has said in one turn.
#[derive(Default)]
struct Said {
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

impl<L: Link + RemoteMemory> Initiator<L> {
    pub(super) fn listen(&mut self) -> Result<bool, LinkError> {
        let (now, identity, attempt) = (self.now, self.identity, self.writer.attempt());
        let mut moved = self.link.progress(now)?;
        let (mut server, mut drainer) = (Said::default(), Said::default());
        moved |= self.link.receive(FRAMES_PER_TURN, |frame| server.take(&frame, identity, attempt))? > 0;
        let heard = self
            .relay
            .as_mut()
            .map_or(Ok(false), |relay| relay.progress(now, |frame| drainer.take(&frame, identity, attempt)));
        self.link.flush()?;
        self.hear_server(server)?;
        let is_silent = self.is_relay_silent(!drainer.answers.is_empty());
        let is_gone = heard.is_err() || drainer.refused || drainer.unreadable.is_some() || is_silent;
        // What cannot be true comes from a drainer that is not to be believed at all.
        let is_true = drainer.answers.iter().all(|answer| self.writer.drained(now, answer).is_ok());
        if is_gone || !is_true {
            self.drainer_gone();
        }
        self.go_ashore();
        Ok(moved | heard.unwrap_or(true))
    }

    fn hear_server(&mut self, said: Said) -> Result<(), LinkError> {
        let broke = |peer: &Peer, error| LinkError {
            peer: peer.clone(),
            loss: Loss::Broke(Violation::Nonsense(error)),
        };
        if let Some(error) = said.unreadable {
            return Err(broke(self.link.peer(), error));
        }
        for answer in said.answers {
            if self.writer.drained(self.now, &answer).is_ok() {
                continue;
            }
            if self.writer.is_attached() {
                let error = DecodeError::BadValue {
                    what: "number of writes that are settled",
                    value: answer.through,
                };
                return Err(broke(self.link.peer(), error));
            }
            // It has forgotten the writer, and knows another one by its name now.
            self.strand(Duration::ZERO);
        }
        if said.refused {
            self.strand(ASK_AGAIN);
        }
        Ok(())
    }

    fn strand(&mut self, pause: Duration) {
        self.writer.strand();
        self.attach_after = self.now + pause;
    }

    /// Whether whoever passes on has been awaited for too long. A process that is stopped loses no link.
    fn is_relay_silent(&mut self, has_answered: bool) -> bool {
        let is_awaited = !self.writer.is_attached() || self.writer.has_unloaded();
        if has_answered || !is_awaited || self.relay.is_none() {
            self.awaited_since = None;
            return false;
        }
        let since = *self.awaited_since.get_or_insert(self.now);
        self.now.since(since) >= self.relay_patience
    }

    /// Whoever drained cannot any more: the server itself has to.
    pub(super) fn drainer_gone(&mut self) {
        if let Some(mut relay) = self.relay.take() {
            relay.close();
            self.awaited_since = None;
            self.attach();
        }
    }

    /// Attaches anew, unless the server does not know the writer: then that comes first.
    pub(super) fn attach(&mut self) {
        if !self.writer.is_stranded() {
            self.writer.attach(self.link.peer().incarnation());
            self.is_introduced = false;
            self.send();
        }
    }

    /// Offloads what the server did not take, in order, and when all of it has begun, comes under another name.
    fn go_ashore(&mut self) {
        while let Some(stranded) = self.writer.next_stranded(self.now) {
            let span = stranded.span;
            let Some(Some(slot)) = self.slots.get(span.slot as usize) else {
                self.writer.moved();
                self.writer.offloaded(self.now, stranded.token, Err(Fault::Refused(Status::NotOpen)));
                continue;
            };
            let bytes = Window::from(self.writer.stranded_bytes(&stranded));
            match self.link.write(slot.open, span.offset, bytes, Token(stranded.token)) {
                Ok(()) => self.writer.moved(),
                Err(AccessError::Full) => {
                    self.writer.not_moved(&stranded);
                    return;
                }
                Err(error) => {
                    let fault = fault_of(&error);
                    self.writer.moved();
                    self.writer.offloaded(self.now, stranded.token, Err(fault));
                }
            }
            self.collect();
        }
        if self.writer.is_stranded() && !self.writer.has_unloaded() && self.now >= self.attach_after {
            self.renew();
        }
    }

    fn renew(&mut self) {
        let leave = Leave { writer: self.identity, attempt: self.writer.attempt() }.encode();
        // Without room for it the server forgets the old name later, when it needs the place.
        let _ = match &mut self.relay {
            Some(relay) => relay.send(FrameHead::new(LEAVE), &[&leave]),
            None => send(&mut self.link, FrameHead::new(LEAVE), &[&leave]),
        };
        self.identity = draw_identity();
        self.writer.renew(self.identity);
        self.writer.attach(self.link.peer().incarnation());
        self.is_introduced = false;
    }

    /// How long whoever passes on may let the writer wait before the server is asked directly.
    pub fn set_relay_patience(&mut self, patience: Duration) {
        self.relay_patience = patience;
    }

    /// Who is awaited when something takes long.
    pub fn awaited(&self) -> &Peer {
        match &self.relay {
            Some(relay) if self.writer.has_unloaded() => relay.peer(),
            _ => self.link.peer(),
        }
    }

    /// When something has to be done even if nobody says anything.
    pub(super) fn due(&self) -> Option<Time> {
        let is_waiting = self.writer.is_stranded() && !self.writer.has_unloaded();
        is_waiting.then_some(self.attach_after)
    }
}
