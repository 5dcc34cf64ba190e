//! The other end of a link, without a link: for tests that say what no link would.

use outboard_wire::Time;

use super::LoopbackBytes;
use crate::stream::{Arrival, ByteStream};

/// One end of a connection whose bytes the holder writes and reads itself. Dropping it hangs up.
pub struct RawEnd(LoopbackBytes);

impl RawEnd {
    pub(super) fn new(end: LoopbackBytes) -> Self {
        Self(end)
    }

    /// Sends as many of `bytes` as there is room for, and says how many. Zero also if the link has hung up.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        self.0.send(Time::ZERO, bytes).unwrap_or(0)
    }

    /// Everything that has arrived.
    pub fn read(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut part = [0; 4096];
        while let Ok(Arrival::Bytes(len)) = self.0.receive(Time::ZERO, &mut part) {
            all.extend_from_slice(&part[..len]);
        }
        all
    }

    /// Whether the link has hung up and everything it sent was read.
    pub fn is_at_end(&mut self) -> bool {
        self.0.receive(Time::ZERO, &mut [0]) == Ok(Arrival::End)
    }
}
