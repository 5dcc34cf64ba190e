//! The settings of a link, whatever moves its bytes.

use std::time::Duration;

use outboard_wire::access::{AccessReply, FIXED_LEN_MAX};
use outboard_wire::liveness::LIVENESS_LEN_MAX;
use outboard_wire::{DecodeError, FrameHeader};

use crate::ConnectError;
use crate::ring::{RECORD_ALIGN, record_len};

/// How many one-sided operations a peer may have under way. Both sides rely on it without negotiating.
pub(crate) const OPERATIONS_MAX: usize = 256;
/// The room that a goodbye takes.
pub(super) const GOODBYE_ROOM: usize = record_len(LIVENESS_LEN_MAX);
/// The room of the outgoing queue that frames never take: a short reply to every operation, and a goodbye.
pub(super) const HEADROOM: usize = OPERATIONS_MAX * record_len(AccessReply::FIXED_LEN) + GOODBYE_ROOM;

/// The smallest queue.
const BUFFER_MIN: usize = 1 << 16;
/// The largest queue.
const BUFFER_MAX: usize = 1 << 30;
/// How many regions a peer can hold open: a slot's number has 16 bits for them.
const REGIONS_MAX: usize = 1 << 16;
/// The smallest `max_payload` that a peer may announce.
pub(super) const PAYLOAD_MIN: u32 = 1024;
/// The longest deadline: what is longer cannot be told from "never".
const DEADLINE_MAX: Duration = Duration::from_secs(3600);

/// The settings of a link over a stream of bytes, whatever moves these: TCP, a fabric, or memory within a process. The accepting
/// side's count for the heartbeat and the deadline.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Bytes in each of a link's two queues, a power of two from 64 KiB to 1 GiB; default 512 KiB. A link takes up to twice this
    /// in memory, as it is used. The longest payload and the longest one-sided access are a little less than half of it.
    pub buffer_bytes: usize,
    /// How many one-sided operations may be under way or ended and not collected, from 1 to 256; default 256,
    /// about 150 bytes each.
    pub operations_max: usize,
    /// How many regions a peer may hold open, at most 65536; default 1024, 24 bytes each once used.
    pub regions_max: usize,
    /// How long a side says nothing before it shows that it lives, in whole milliseconds; default 500 ms.
    pub heartbeat: Duration,
    /// How long a silence means that the peer is lost, in whole milliseconds; at least two heartbeats; default
    /// 5 s. A one-sided operation that does not end for four times as long while nothing else moves means so too.
    pub deadline: Duration,
    /// How long the other side may say nothing during a handshake, the connecting included; default 2 s.
    pub handshake_timeout: Duration,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            buffer_bytes: 1 << 19,
            operations_max: OPERATIONS_MAX,
            regions_max: 1024,
            heartbeat: Duration::from_millis(500),
            deadline: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(2),
        }
    }
}

impl StreamConfig {
    /// The longest payload that fits the queues comfortably: two such frames fill one.
    pub(crate) const fn max_payload(&self) -> usize {
        (self.buffer_bytes - HEADROOM) / 2 / RECORD_ALIGN * RECORD_ALIGN - FrameHeader::LEN - FIXED_LEN_MAX
    }

    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        let wrong = |what, value: u128, why| {
            let value = u64::try_from(value).unwrap_or(u64::MAX);
            Err(ConnectError::Configuration { what, value, why })
        };
        if !self.buffer_bytes.is_power_of_two() || !(BUFFER_MIN..=BUFFER_MAX).contains(&self.buffer_bytes) {
            let why = "it must be a power of two from 64 KiB to 1 GiB";
            return wrong("buffer_bytes", self.buffer_bytes as u128, why);
        }
        if !(1..=OPERATIONS_MAX).contains(&self.operations_max) {
            return wrong("operations_max", self.operations_max as u128, "it must be from 1 to 256");
        }
        if !(1..=REGIONS_MAX).contains(&self.regions_max) {
            return wrong("regions_max", self.regions_max as u128, "it must be from 1 to 65536");
        }
        if !are_sane(self.heartbeat, self.deadline) {
            let why = "milliseconds must be at least two heartbeats of at least 1 ms, and at most an hour";
            return wrong("deadline", self.deadline.as_millis(), why);
        }
        Ok(())
    }

    /// Takes over what the accepting side has set.
    pub(super) fn adopt(&mut self, heartbeat_ms: u32, deadline_ms: u32) -> Result<(), DecodeError> {
        let (heartbeat, deadline) =
            (Duration::from_millis(heartbeat_ms.into()), Duration::from_millis(deadline_ms.into()));
        if !are_sane(heartbeat, deadline) {
            return Err(DecodeError::BadValue { what: "deadline", value: deadline_ms.into() });
        }
        (self.heartbeat, self.deadline) = (heartbeat, deadline);
        Ok(())
    }
}

fn are_sane(heartbeat: Duration, deadline: Duration) -> bool {
    heartbeat >= Duration::from_millis(1) && deadline >= heartbeat * 2 && deadline <= DEADLINE_MAX
}
