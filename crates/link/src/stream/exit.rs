//! The way out, for answers that need not go through the queue.

use outboard_wire::access::AccessReply;
use outboard_wire::liveness::LIVENESS_LEN_MAX;
use outboard_wire::{FrameHead, FrameHeader};
use zerocopy::IntoBytes;

use super::bytes::ByteStream;
use super::outbox::Outbox;
use super::pulse::Pulse;
use super::straight::is_long;
use crate::memory::Window;
use crate::ring::record_len;
use crate::{Counters, Loss};

/// The queue of outgoing records, with the stream behind it.
pub(super) struct Exit<'a, S> {
    pub(super) outbox: &'a mut Outbox,
    pub(super) stream: &'a mut S,
    pub(super) pulse: &'a mut Pulse,
    pub(super) counters: &'a mut Counters,
}

impl<S: ByteStream> Exit<'_, S> {
    /// Sends what the queue has released. Returns whether anything left.
    pub(super) fn push(&mut self) -> Result<bool, Loss> {
        let bytes = self.outbox.released();
        if bytes.is_empty() {
            return Ok(false);
        }
        let len = self.stream.send(self.pulse.now(), bytes)?;
        self.outbox.sent(len);
        self.note(len);
        Ok(len > 0)
    }

    /// Sends an answer from where its data lie, though others may not find whole words then, and leaves what the
    /// stream does not take to the queue. Only if the answer is long and nothing is to leave before it; returns
    /// false if it has to go another way.
    pub(super) fn reply_straight(&mut self, tag: u32, reply: &AccessReply, data: Window<'_>) -> bool {
        if !is_long(data.len()) || !self.outbox.is_idle() {
            return false;
        }
        self.send_straight(&Outbox::head_of_reply(tag, reply, data.len()), data);
        true
    }

    /// Sends a frame that is long and has no padding. Nothing may be to leave before it.
    pub(super) fn frame_straight(&mut self, head: FrameHead, payload: &[u8]) {
        // No payload reaches 4 GiB: queues are at most 1 GiB.
        let header = FrameHeader::new(head, payload.len() as u32);
        self.send_straight(header.as_bytes(), Window::from(payload));
        self.counters.frames_sent += 1;
        self.counters.bytes_sent += payload.len() as u64;
    }

    fn send_straight(&mut self, head: &[u8], data: Window<'_>) {
        // A stream that has failed fails again when the queue is sent, and there it is told.
        let len = self.stream.send_gathered(self.pulse.now(), head, data).unwrap_or(0);
        self.note(len);
        self.outbox.rest_of_record(head, data, len);
    }

    fn note(&mut self, len: usize) {
        if len > 0 {
            self.counters.doorbells += 1;
            self.pulse.sent();
        }
        if len > record_len(LIVENESS_LEN_MAX) {
            self.pulse.worked();
        }
    }
}
