//! The settings of a writer.

use outboard_steering::Preference;

use crate::{PolicyConfig, WritePath};

/// The most offloaded writes that may be under way at once.
pub(crate) const OFFLOADED_MAX: usize = 32768;

/// How a writer works. Every value is legal; what is too small counts as the least that works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterConfig {
    /// Size of the staging ring in bytes, which is also the memory it takes; default 256 KiB. It bounds what may be
    /// unloaded and not settled, and half of it the longest write.
    pub ring_bytes: usize,
    /// Unloaded writes that may be unsettled at once, 40 bytes of memory each; default 512, at most 1024.
    pub unloaded_max: usize,
    /// Offloaded writes that may be under way at once, 64 bytes of memory each; default 512, at most 32768.
    pub offloaded_max: usize,
    /// Batches under way before entries wait for company; default 8. Below it every write leaves at once.
    pub batches_max: usize,
    /// The longest batch in bytes, unless one entry alone is longer; default 16 KiB.
    pub batch_bytes: usize,
    /// Writes that have ended and were not asked for before no other begins, 48 bytes of memory each as they are there;
    /// default 16384. As many as are under way may come on top.
    pub untold_max: usize,
    /// Which path writes take; by default each is decided by itself.
    pub preference: Preference<WritePath>,
    /// How it is decided.
    pub policy: PolicyConfig,
}

impl Default for WriterConfig {
    fn default() -> Self {
        Self {
            ring_bytes: 256 << 10,
            unloaded_max: 512,
            offloaded_max: 512,
            batches_max: 8,
            batch_bytes: 16 << 10,
            untold_max: 16384,
            preference: Preference::Auto,
            policy: PolicyConfig::default(),
        }
    }
}
