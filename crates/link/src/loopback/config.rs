//! The settings of links within a process.

use crate::stream::StreamConfig;

/// The settings of links within a process.
#[derive(Clone, Debug)]
pub struct LoopbackConfig {
    /// The settings of the stream; default those of other streams, but queues of 256 KiB. A link costs four times these in memory.
    pub stream: StreamConfig,
    /// Bytes that can be on their way in each direction, at least 4 KiB; default 256 KiB, allocated as
    /// they are needed.
    pub pipe_bytes: usize,
}

impl Default for LoopbackConfig {
    fn default() -> Self {
        Self {
            stream: StreamConfig { buffer_bytes: 1 << 18, ..StreamConfig::default() },
            pipe_bytes: 1 << 18,
        }
    }
}
