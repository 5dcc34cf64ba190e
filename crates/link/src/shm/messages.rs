//! What the two sides say to each other beside the rings.

use std::os::fd::{AsFd, OwnedFd};

use outboard_wire::access::{Reply, Request, Slot, Status};
use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, Rights};

use super::ShmLink;
use super::channel::{MESSAGE_MAX, Received, read_message};
use super::regions::Opening;
use crate::memory::{AdoptError, Segment};
use crate::{AccessError, Completion, LinkError, Loss, Outcome, Violation};

/// How many messages of the socket are read in one turn.
const MESSAGES_PER_TURN: usize = 64;

impl ShmLink {
    /// Reads what the socket holds. Returns whether there was anything.
    pub(super) fn look_at_socket(&mut self) -> Result<bool, LinkError> {
        let mut bytes = [0; MESSAGE_MAX];
        let mut moved = false;
        for _ in 0..MESSAGES_PER_TURN {
            let received = self.channel.receive(&mut bytes).map_err(|loss| self.lose(loss))?;
            match received {
                Received::Nothing => break,
                Received::Doorbell => {}
                Received::Message(len, descriptor) => {
                    let handled = read_message(&bytes[..len]).map_err(Loss::from);
                    handled
                        .and_then(|(head, payload)| self.handle_message(head, payload, descriptor))
                        .map_err(|loss| self.lose(loss))?;
                }
            }
            moved = true;
        }
        Ok(moved)
    }

    fn handle_message(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        descriptor: Option<OwnedFd>,
    ) -> Result<(), Loss> {
        if Liveness::reads(head.kind) {
            return match Liveness::decode(head.kind, payload).map_err(Violation::from)? {
                Liveness::Goodbye { code, reason } => Err(Loss::by_goodbye(code, reason.as_str())),
                Liveness::Ping(_) | Liveness::Pong(_) => Ok(()),
            };
        }
        if Reply::is_reply(head.kind) {
            let reply = Reply::decode(head.kind, payload).map_err(Violation::from)?;
            return self.handle_reply(head.tag, reply, descriptor);
        }
        match Request::decode(head.kind, payload, 0).map_err(Violation::from)? {
            Request::Open { region, generation, rights, key } => {
                let opened = self.exports.open(region, generation, &key, rights);
                let given = opened.and_then(|export| self.give(&export.memory, rights));
                self.answer_open(head.tag, given)
            }
            Request::Close { .. } => {
                self.regions_given = self.regions_given.saturating_sub(1);
                Ok(())
            }
            // The memory is mapped at the peer: it has no reason to ask.
            _ => Err(Loss::Broke(Violation::UnknownReply { tag: head.tag })),
        }
    }

    /// A descriptor for the peer that allows no more than `rights`.
    fn give(&mut self, memory: &Segment, rights: Rights) -> Result<(OwnedFd, u64), Status> {
        if self.regions_given >= self.regions_max {
            return Err(Status::Busy);
        }
        // Mapped memory can always be read.
        if !rights.includes(Rights::READ) {
            return Err(Status::NoRight);
        }
        let descriptor = if rights.includes(Rights::WRITE) {
            memory.descriptor().try_clone_to_owned().map_err(|_| Status::Busy)?
        } else {
            memory.read_only_descriptor().map_err(|_| Status::Busy)?
        };
        self.regions_given += 1;
        Ok((descriptor, memory.len() as u64))
    }

    fn answer_open(&mut self, tag: u32, given: Result<(OwnedFd, u64), Status>) -> Result<(), Loss> {
        let (status, size, descriptor) = match given {
            Ok((descriptor, size)) => (Status::Done, size, Some(descriptor)),
            Err(status) => (status, 0, None),
        };
        self.counters.accesses_served += 1;
        self.unsent.push_back((tag, Reply::Opened { status, slot: Slot(0), size }, descriptor));
        if self.unsent.len() > self.regions_max {
            return Err(Violation::TooManyOperations { max: self.regions_max }.into());
        }
        self.send_answers()
    }

    pub(super) fn send_answers(&mut self) -> Result<(), Loss> {
        while let Some((tag, reply, descriptor)) = self.unsent.front() {
            let head = FrameHead::new(reply.kind()).with_tag(*tag);
            let descriptor = descriptor.as_ref().map(AsFd::as_fd);
            if !self.channel.send_message(head, reply.encode().as_bytes(), descriptor)? {
                break;
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    /// The answer to an opening. One that breaks the rules leaves the opening to end with the link.
    fn handle_reply(&mut self, tag: u32, reply: Reply, descriptor: Option<OwnedFd>) -> Result<(), Loss> {
        let (Reply::Opened { status, size, .. }, Some(asked)) = (reply, self.regions.asked(tag)) else {
            return Err(Violation::UnknownReply { tag }.into());
        };
        let result = match asked.verdict(status) {
            // Whoever made up the grant, it was not the owner: the link is as good as it was.
            Ok(()) if size < asked.size => Err(AccessError::OutOfBounds { offset: 0, len: asked.size, size }),
            Ok(()) => {
                let descriptor = descriptor.ok_or(Violation::Segment("missing"))?;
                match self.regions.map(descriptor, size, &asked) {
                    Ok(region) => Ok(Outcome::Opened(region)),
                    Err(AdoptError::Violation(violation)) => return Err(violation.into()),
                    Err(AdoptError::System(source)) => return Err(Loss::System { call: "mmap", source }),
                }
            }
            Err(error) => Err(error),
        };
        if let Some(Opening { token, .. }) = self.regions.answered(tag) {
            self.completions.push_back(Completion { token, result });
        }
        Ok(())
    }
}
