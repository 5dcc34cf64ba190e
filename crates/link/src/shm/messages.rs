//! The messages of the two sides beside the rings.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use outboard_wire::access::{AccessReply, AccessRequest, AccessStatus, Slot};
use outboard_wire::liveness::Liveness;
use outboard_wire::{FrameHead, Rights};
use rustix::io::Errno;

use super::ShmLink;
use super::channel::{Enclosed, MESSAGE_MAX, Received, read_message};
use super::regions::Opening;
use crate::memory::AdoptError;
use crate::{AccessError, AccessOutcome, Completion, Export, LinkError, Loss, Violation};

/// A region that the peer may map.
pub(super) struct Gift {
    export: Arc<Export>,
    rights: Rights,
}

impl Gift {
    /// A descriptor of its own, where the peer may only read.
    fn read_only(&self) -> Result<Option<OwnedFd>, AccessStatus> {
        // A store to a file without room is a fault: such writes go by frames, to the owner.
        if self.rights.includes(Rights::WRITE) && !self.export.memory.is_sparse_file() {
            return Ok(None);
        }
        self.export.memory.read_only_descriptor().map(Some).map_err(|_| AccessStatus::NoDescriptors)
    }
}

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
                Received::Message(len, enclosed) => {
                    let handled = read_message(&bytes[..len]).map_err(Loss::from);
                    handled
                        .and_then(|(head, payload)| self.handle_message(head, payload, enclosed))
                        .map_err(|loss| self.lose(loss))?;
                }
            }
            moved = true;
        }
        Ok(moved)
    }

    fn handle_message(&mut self, head: FrameHead, payload: &[u8], enclosed: Enclosed) -> Result<(), Loss> {
        if Liveness::reads(head.kind) {
            return match Liveness::decode(head.kind, payload).map_err(Violation::from)? {
                Liveness::Goodbye { code, reason } => Err(Loss::by_goodbye(code, reason.as_str())),
                Liveness::Ping(_) | Liveness::Pong(_) => Ok(()),
            };
        }
        if AccessReply::is_reply(head.kind) {
            let reply = AccessReply::decode(head.kind, payload).map_err(Violation::from)?;
            return self.handle_reply(head.tag, reply, enclosed);
        }
        match AccessRequest::decode(head.kind, payload, 0).map_err(Violation::from)? {
            AccessRequest::Open { region, generation, rights, key } => {
                let opened = self.exports.open(region, generation, &key, rights);
                let given = opened.and_then(|export| self.give(export, rights));
                self.answer_open(head.tag, given)
            }
            AccessRequest::Close { .. } => {
                self.regions_given = self.regions_given.saturating_sub(1);
                Ok(())
            }
            // The memory is mapped at the peer: it has no reason to ask.
            _ => Err(Loss::Broke(Violation::UnknownReply { tag: head.tag })),
        }
    }

    /// Tells the peer that one of its regions is not held open any more.
    pub(super) fn tell_closed(&mut self, slot: Slot) {
        let request = AccessRequest::Close { slot };
        let head = FrameHead::new(request.kind());
        // Only the owner's count suffers if this is not sent, until the link ends.
        let _ = self.channel.send_message(head, request.encode().as_bytes(), None);
    }

    /// Counts a region as given to the peer, if it may have it.
    fn give(&mut self, export: Arc<Export>, rights: Rights) -> Result<Gift, AccessStatus> {
        if self.regions_given >= self.regions_max {
            return Err(AccessStatus::Busy);
        }
        // Mapped memory can always be read.
        if !rights.includes(Rights::READ) {
            return Err(AccessStatus::NoRight);
        }
        // A file can be cut off by a process that has its descriptor, and we would fault: only one that can end us anyway has it.
        if export.memory.is_file() && !self.channel.trusts_peer() {
            return Err(AccessStatus::NoRight);
        }
        self.regions_given += 1;
        Ok(Gift { export, rights })
    }

    fn answer_open(&mut self, tag: u32, given: Result<Gift, AccessStatus>) -> Result<(), Loss> {
        self.counters.accesses_served += 1;
        self.unsent.push_back((tag, given));
        if self.unsent.len() > self.regions_max {
            return Err(Violation::TooManyOperations { max: self.regions_max }.into());
        }
        self.send_answers()
    }

    pub(super) fn send_answers(&mut self) -> Result<(), Loss> {
        while let Some((tag, given)) = self.unsent.front() {
            // A descriptor is made when it can leave: a peer that takes no answers has none wait for it.
            let given = given.as_ref().map_err(|status| *status);
            let given = given.and_then(|gift| Ok((&gift.export.memory, gift.read_only()?)));
            let (status, size, descriptor) = match &given {
                Ok((memory, read_only)) => {
                    let descriptor = read_only.as_ref().map_or_else(|| memory.descriptor(), AsFd::as_fd);
                    (AccessStatus::Done, memory.len() as u64, Some(descriptor))
                }
                Err(status) => (*status, 0, None),
            };
            let reply = AccessReply::Opened { status, slot: Slot(0), size };
            let head = FrameHead::new(reply.kind()).with_tag(*tag);
            if !self.channel.send_message(head, reply.encode().as_bytes(), descriptor)? {
                break;
            }
            self.unsent.pop_front();
        }
        Ok(())
    }

    /// The answer to an opening. One that breaks the rules leaves the opening to end with the link.
    fn handle_reply(&mut self, tag: u32, reply: AccessReply, enclosed: Enclosed) -> Result<(), Loss> {
        let (AccessReply::Opened { status, size, .. }, Some(asked)) = (reply, self.regions.asked(tag)) else {
            return Err(Violation::UnknownReply { tag }.into());
        };
        let result = match asked.verdict(status) {
            // The owner did not make up the grant: the link is as good as it was.
            Ok(()) if size < asked.size => Err(AccessError::OutOfBounds { offset: 0, len: asked.size, size }),
            Ok(()) => {
                let mapped = match enclosed {
                    Enclosed::Descriptor(descriptor) => {
                        let trusts_peer = self.channel.trusts_peer();
                        self.regions.map(descriptor, size, (&asked, trusts_peer))
                    }
                    Enclosed::Dropped => Err(AdoptError::System(Errno::MFILE)),
                    Enclosed::Nothing => Err(Violation::Segment("missing").into()),
                };
                match mapped {
                    Ok(region) => Ok(AccessOutcome::Opened(region)),
                    Err(AdoptError::Violation(violation)) => return Err(violation.into()),
                    Err(AdoptError::System(source)) => {
                        // The peer counts it as open.
                        self.tell_closed(Slot(0));
                        Err(AccessError::Unmappable { errno: source.raw_os_error() })
                    }
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
