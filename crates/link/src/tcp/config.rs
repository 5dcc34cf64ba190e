//! The settings of TCP links.

use std::time::Duration;

use crate::stream::{OPERATIONS_MAX, Terms};

/// The settings of TCP links. The accepting side's count for the heartbeat and the deadline.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes in each of a link's two queues, a power of two from 64 KiB to 1 GiB; default 512 KiB. A link costs
    /// twice this in memory, and what the kernel keeps for the socket. The longest payload and the longest
    /// one-sided access are a little less than half of it.
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
    /// How long a handshake may take, the connecting included; default 2 s.
    pub handshake_timeout: Duration,
    /// Whether a listener may bind to an address that other machines reach; default no.
    pub allow_remote: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buffer_bytes: 1 << 19,
            operations_max: OPERATIONS_MAX,
            regions_max: 1024,
            heartbeat: Duration::from_millis(500),
            deadline: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(2),
            allow_remote: false,
        }
    }
}

impl Config {
    pub(super) fn terms(&self) -> Terms {
        Terms {
            buffer_bytes: self.buffer_bytes,
            operations_max: self.operations_max,
            regions_max: self.regions_max,
            heartbeat: self.heartbeat,
            deadline: self.deadline,
            handshake_timeout: self.handshake_timeout,
        }
    }
}
