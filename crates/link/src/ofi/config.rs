//! The settings of links over libfabric.

use std::time::Duration;

use super::preface::{SLOT_BYTES_MAX, SLOT_BYTES_MIN, SLOTS_MAX, SLOTS_MIN};
use crate::ConnectError;
use crate::stream::StreamConfig;

/// How long the other side may say nothing during a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How a provider gets to do its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Progress {
    /// As the provider prefers: network cards work by themselves, software wants to be called.
    #[default]
    Fitting,
    /// Only calls do. What peers want waits until the link's owner has time for it.
    Manual,
    /// The provider itself, by a thread of its own if it has to, which costs processor time. Where a provider has
    /// no such thing, calls do.
    Automatic,
}

/// The settings of links over libfabric.
#[derive(Clone, Debug)]
pub struct OfiConfig {
    /// The settings of the stream; default those of other streams, but 5 s for a handshake, because providers take their time.
    /// Besides its queues a link takes twice its slots in memory, and what the provider takes.
    pub stream: StreamConfig,
    /// Whether a listener may bind to an address that other machines reach; default no.
    pub allow_remote: bool,
    /// The provider that moves the bytes, by libfabric's name, such as `verbs;ofi_rxm`; default none: the best that this machine
    /// has, and on the accepting side what the other side chose.
    pub provider: Option<String>,
    /// How the provider gets to do its work; by default as it prefers.
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

impl Default for OfiConfig {
    fn default() -> Self {
        Self {
            stream: StreamConfig { handshake_timeout: HANDSHAKE_TIMEOUT, ..StreamConfig::default() },
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

impl OfiConfig {
    pub(super) fn check(&self) -> Result<(), ConnectError> {
        self.stream.check()?;
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
