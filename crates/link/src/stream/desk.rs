//! Where records are answered.

use std::sync::Arc;

use outboard_wire::FrameHead;
use outboard_wire::access::{AccessReply, AccessRequest, FIXED_LEN_MAX};
use outboard_wire::liveness::Liveness;
use rustix::io::Errno;

use super::bytes::ByteStream;
use super::config::StreamConfig;
use super::exit::Exit;
use super::outbox::Outbox;
use super::pulse::{Awaited, Pulse};
use super::requester::Requester;
use super::server::Server;
use crate::memory::Window;
use crate::ring::record_len;
use crate::{Counters, Exports, Loss, Violation};

/// Everything that answers records: apart from the inbox they lie in, so that they are read in place.
pub(super) struct Desk {
    pub(super) outbox: Outbox,
    pub(super) server: Server,
    pub(super) requester: Requester,
    pub(super) counters: Counters,
    share: Share,
}

/// How frames and served reads share an outgoing queue that both want: in turns of about `quota` bytes.
struct Share {
    quota: usize,
    /// A frame found no room since the last one that did.
    frame_waits: bool,
    frame_bytes: usize,
    read_bytes: usize,
    longest: usize,
}

impl Desk {
    pub(super) fn new(
        terms: &StreamConfig,
        exports: Arc<Exports>,
        (max_payload, reaches): (usize, bool),
    ) -> Result<Self, Errno> {
        let quota = terms.buffer_bytes / 4;
        Ok(Self {
            outbox: Outbox::new(terms.buffer_bytes)?,
            server: Server::new(exports, terms.regions_max, max_payload),
            requester: Requester::new(terms.operations_max, reaches),
            counters: Counters::default(),
            share: Share { quota, frame_waits: false, frame_bytes: 0, read_bytes: 0, longest: max_payload },
        })
    }

    /// Deals with one of the link's own records, which may be the last that is here.
    pub(super) fn handle(
        &mut self,
        stream: &mut impl ByteStream,
        pulse: &mut Pulse,
        (head, payload): (FrameHead, &[u8]),
        is_last: bool,
    ) -> Result<(), Loss> {
        if Liveness::reads(head.kind) {
            return match Liveness::decode(head.kind, payload).map_err(Violation::from)? {
                Liveness::Goodbye { code, reason } => Err(Loss::by_goodbye(code, reason.as_str())),
                // A queue without room shows by itself that we live.
                Liveness::Ping(number) if self.outbox.has_room(payload.len()) => {
                    self.outbox.liveness(&Liveness::Pong(number));
                    Ok(())
                }
                Liveness::Ping(_) | Liveness::Pong(_) => Ok(()),
            };
        }
        pulse.worked();
        if AccessReply::is_reply(head.kind) {
            let (fixed, data) = payload.split_at(payload.len().min(AccessReply::FIXED_LEN));
            let reply = AccessReply::decode(head.kind, fixed).map_err(Violation::from)?;
            return Ok(self.requester.end(head.tag, &reply, data)?);
        }
        let fixed_len = AccessRequest::fixed_len(head.kind).unwrap_or(0);
        let (fixed, data) = payload.split_at(payload.len().min(fixed_len));
        let request = AccessRequest::decode(head.kind, fixed, data.len()).map_err(Violation::from)?;
        if let AccessRequest::Withdrawn { slot } = request
            && self.requester.withdraw(slot)
        {
            return Ok(());
        }
        self.counters.accesses_served += 1;
        let Self { outbox, counters, .. } = self;
        let mut exit = Exit { outbox, stream, pulse, counters };
        Ok(self.server.serve(&mut exit, (head.tag, is_last), (request, data))?)
    }

    /// Whether a frame or a request with `payload` bytes may go into the queue now.
    #[inline]
    pub(super) fn admit(&mut self, payload: usize) -> bool {
        let yields = self.server.has_waiting() && self.share.frame_bytes >= self.share.quota;
        if yields || !self.outbox.has_room(payload) {
            self.share.frame_waits = true;
            self.counters.full += 1;
            // A sender that is refused waits for room, and there will be none unless this leaves.
            self.outbox.release();
            return false;
        }
        self.share.frame_waits = false;
        self.share.read_bytes = 0;
        self.share.frame_bytes += record_len(payload);
        true
    }

    /// Gives slots back as far as there is room. Comes before every request, so that a user that closes a region and
    /// opens another finds the place free.
    pub(super) fn give_back(&mut self) -> bool {
        let mut moved = false;
        while let Some(slot) = self.requester.closing.front().copied() {
            // Operations under way past the frames would be overtaken.
            if !self.outbox.has_room(FIXED_LEN_MAX) || self.requester.is_reaching(slot) {
                break;
            }
            self.outbox.request(0, &AccessRequest::Close { slot }, Window::from(&[][..]));
            self.requester.closing.pop_front();
            moved = true;
        }
        moved
    }

    /// Answers waiting reads as far as there is room. Returns whether there were any.
    pub(super) fn answer_waiting(&mut self) -> Result<bool, Violation> {
        self.server.withdraw(&mut self.outbox);
        let mut moved = self.give_back();
        while self.can_answer() {
            let len = self.server.next_reply_len().unwrap_or(0);
            self.server.serve_next(&mut self.outbox)?;
            self.share.frame_bytes = 0;
            self.share.read_bytes += record_len(len);
            moved = true;
        }
        Ok(moved)
    }

    pub(super) fn can_answer(&mut self) -> bool {
        let Some(len) = self.server.next_reply_len() else { return false };
        if self.share.frame_waits && self.share.read_bytes >= self.share.quota {
            if !self.outbox.has_room(self.share.longest) {
                return false;
            }
            // There is room for any frame, and no sender has used it.
            self.share.frame_waits = false;
        }
        self.outbox.has_room(len)
    }

    /// The thing that the link waits for.
    pub(super) fn awaited(&self) -> Awaited {
        Awaited { operations: self.requester.is_waiting(), backlog: self.outbox.has_released() }
    }
}
