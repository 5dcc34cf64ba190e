//! The settings of links over libfabric.

use std::time::Duration;

use super::preface::{SLOT_BYTES_MAX, SLOT_BYTES_MIN, SLOTS_MAX, SLOTS_MIN};
use crate::ConnectError;
use crate::stream::{OPERATIONS_MAX, Terms};

/// Who lets a provider do its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// Whoever the provider prefers: network cards work by themselves, software wants to be called.
    #[default]
    Fitting,
    /// Only calls do. What peers want waits until the link's owner has time for it.
    Manual,
    /// The provider itself, by a thread of its own if it has to, which costs processor time. Where a provider has
    /// no such thing, calls do.
    Automatic,
}

/// The settings of links over libfabric. The accepting side's count for the heartbeat and the deadline.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes in each of a link's two queues, a power of two from 64 KiB to 1 GiB; default 512 KiB. A link costs
    /// twice this in memory, twice its slots, and what the provider takes. The longest payload and the longest
    /// one-sided access are a little less than half of it.
    pub buffer_bytes: usize,
    /// How many one-sided operations may be under way or ended and not collected, from 1 to 256; default 256,
    /// about 150 bytes each.
    pub operations_max: usize,
    /// How many regions a peer may hold open, at most 65536; default 1024, 24 bytes each once used.
    pub regions_max: usize,
    /// How long a side says nothing before it shows that it lives, in whole milliseconds; default 500 ms.
    pub heartbeat: Duration,
    /// How long a silence means that the peer is lost, in whole milliseconds; at least two heartbeats; default 5 s.
    pub deadline: Duration,
    /// How long a handshake may take, the connecting included; default 5 s, because providers take their time.
    pub handshake_timeout: Duration,
    /// Whether a listener may bind to an address that other machines reach; default no.
    pub allow_remote: bool,
    /// Who moves the bytes, by libfabric's name, such as `verbs;ofi_rxm`; default none: the best that this machine
    /// has, and on the accepting side what the other side chose.
    pub provider: Option<String>,
    /// Who lets the provider work; default whoever it prefers.
    pub progress: Progress,
    /// Whether peers reach regions past the owner's processor even if those are written and read at the same moment,
    /// and the provider is made of software, which may tear words then; default no.
    pub lends_all: bool,
    /// How many messages may be on their way in each direction, from 8 to 1024; default 32.
    pub slots: usize,
    /// The longest message, from 1 KiB to 1 MiB; default 65 KiB, so that a frame of 64 KiB is one message. Each side has
    /// `slots` places for messages of up to 16 KiB to send from, and as many to receive in, registered where the provider
    /// wants that. Longer ones are written past these, where the provider can.
    pub slot_bytes: usize,
    /// How much memory all links of this process may have for long messages; default 64 MiB. Each takes a little less than
    /// `slots` times `slot_bytes` of it when its peer begins to send some, and half as much when it does so itself, and
    /// gives it back when it is closed, or does not use it while others want it. Without room they go in pieces.
    pub pool_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            buffer_bytes: 1 << 19,
            operations_max: OPERATIONS_MAX,
            regions_max: 1024,
            heartbeat: Duration::from_millis(500),
            deadline: Duration::from_secs(5),
            handshake_timeout: Duration::from_secs(5),
            allow_remote: false,
            provider: None,
            progress: Progress::Fitting,
            lends_all: false,
            slots: 32,
            slot_bytes: 65 << 10,
            pool_bytes: 64 << 20,
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

    pub(super) fn check(&self) -> Result<(), ConnectError> {
        self.terms().check()?;
        let wrong =
            |what, value: usize, why| Err(ConnectError::Configuration { what, value: value as u64, why });
        if !(SLOTS_MIN..=SLOTS_MAX).contains(&self.slots) {
            return wrong("slots", self.slots, "it must be from 8 to 1024");
        }
        if !(SLOT_BYTES_MIN..=SLOT_BYTES_MAX).contains(&self.slot_bytes) {
            return wrong("slot_bytes", self.slot_bytes, "it must be from 1 KiB to 1 MiB");
        }
        Ok(())
    }
}
