//! The settings of shared-memory links.

use std::time::Duration;

use crate::ConnectError;

/// Which users may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Users {
    /// The user this process runs as, and root.
    Same,
    /// These user ids, and root.
    These(Vec<u32>),
    /// Everyone on this machine.
    Everyone,
}

impl Users {
    pub(super) fn include(&self, user: u32) -> bool {
        match self {
            _ if user == 0 => true,
            Self::Same => user == rustix::process::geteuid().as_raw(),
            Self::These(users) => users.contains(&user),
            Self::Everyone => true,
        }
    }
}

/// The settings of shared-memory links. The accepting side's count for sizes.
#[derive(Clone, Debug)]
pub struct ShmConfig {
    /// Bytes in each of the two rings, a power of two from 64 KiB to 1 GiB; default 512 KiB. A link takes up
    /// to twice this in memory, as it is used. The longest payload is half of it less a header.
    pub ring_bytes: u32,
    /// How long the other side may say nothing during a handshake; default 2 s.
    pub handshake_timeout: Duration,
    /// How often a busy link looks at its socket, where news of the peer's death comes; default 100 µs.
    pub look_interval: Duration,
    /// How many regions a peer may hold open; default 1024, about 100 bytes each.
    pub regions_max: usize,
    /// How many one-sided operations may end before they are collected; default 1024, 64 bytes each.
    pub operations_max: usize,
    /// The users who may connect; default this process's own.
    pub users: Users,
}

/// The smallest ring.
const RING_MIN: u32 = 1 << 16;
/// The largest ring.
const RING_MAX: u32 = 1 << 30;

impl Default for ShmConfig {
    fn default() -> Self {
        Self {
            ring_bytes: 1 << 19,
            handshake_timeout: Duration::from_secs(2),
            look_interval: Duration::from_micros(100),
            regions_max: 1024,
            operations_max: 1024,
            users: Users::Same,
        }
    }
}

/// Whether a ring can have this size, be it configured here or announced by a peer.
pub(super) fn is_ring_size(bytes: u32) -> bool {
    bytes.is_power_of_two() && (RING_MIN..=RING_MAX).contains(&bytes)
}

/// The longest payload that fits a ring comfortably: two such frames fill it.
pub(super) fn max_payload(ring_bytes: u32) -> usize {
    ring_bytes as usize / 2 - crate::ring::RECORD_ALIGN
}

impl ShmConfig {
    pub(super) fn check(&self) -> Result<(), ConnectError> {
        if is_ring_size(self.ring_bytes) {
            return Ok(());
        }
        Err(ConnectError::Configuration {
            what: "ring_bytes",
            value: self.ring_bytes.into(),
            why: "it must be a power of two from 64 KiB to 1 GiB",
        })
    }
}
