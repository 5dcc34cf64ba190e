//! The memory and socket that a hostile peer can reach: for tests of the other side.

use std::sync::Arc;

use super::ShmLink;
use super::channel::Channel;
use crate::memory::Mapping;

/// A peer that did the handshake as it should and now does as it likes.
pub struct Vandal {
    channel: Channel,
    segment: Arc<Mapping>,
}

impl Vandal {
    /// Keeps what the link shares with its peer and forgets how to use it properly.
    pub fn new(link: ShmLink) -> Self {
        Self { channel: link.channel, segment: link.segment }
    }

    /// Cursors and both rings.
    pub fn segment(&self) -> &Mapping {
        &self.segment
    }

    /// Puts bytes on the socket. Returns false when it is full or closed.
    pub fn send(&self, bytes: &[u8]) -> bool {
        self.channel.send(bytes, None).unwrap_or(false)
    }
}
