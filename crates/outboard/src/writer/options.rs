//! How a writer and a write can be told what to do.

use outboard_writing::{Hint, Preference, WritePath, WriterConfig};

/// How a [`Writer`](super::Writer) works.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// Fixes the path of all writes; by default each is decided by itself.
    pub path: Option<WritePath>,
    /// Bytes that may be unloaded and not settled, which is also the memory that they take; half of it bounds the
    /// longest write. Default 256 KiB, less where the link carries less. Deciding takes another 140 KiB.
    pub ring_bytes: usize,
    /// Writes that may be under way by each path; default 512, at least 1, at most 32768 offloaded and 1024 unloaded.
    pub under_way_max: usize,
    /// Whether what is unloaded goes through the agent, if there is one; by default the memory server is asked directly.
    /// When the agent is gone the server is.
    pub by_agent: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        let WriterConfig { ring_bytes, unloaded_max, .. } = WriterConfig::default();
        Self { path: None, ring_bytes, under_way_max: unloaded_max, by_agent: false }
    }
}

impl WriterOptions {
    /// Sends all writes by this path.
    pub fn with_path(self, path: WritePath) -> Self {
        Self { path: Some(path), ..self }
    }

    /// Sets how many bytes may be unloaded and not settled.
    pub fn with_ring_bytes(self, ring_bytes: usize) -> Self {
        Self { ring_bytes, ..self }
    }

    /// Sets how many writes may be under way by each path.
    pub fn with_under_way_max(self, under_way_max: usize) -> Self {
        Self { under_way_max, ..self }
    }

    /// Sends unloaded writes through the agent, if there is one.
    pub fn with_writes_by_agent(self) -> Self {
        Self { by_agent: true, ..self }
    }

    pub(super) fn config(&self) -> WriterConfig {
        WriterConfig {
            ring_bytes: self.ring_bytes,
            unloaded_max: self.under_way_max,
            offloaded_max: self.under_way_max,
            preference: self.path.map_or(Preference::Auto, Preference::Fixed),
            ..WriterConfig::default()
        }
    }
}

/// How one write is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    /// A hint about its page.
    pub hint: Hint,
    /// Fixes its path.
    pub path: Option<WritePath>,
    /// Whether its end is told if it is a good one.
    pub signal: bool,
}
