//! How many seats should be ready for chunks that come.

use outboard_wire::mutant;

/// Seats are kept ready for so many faults at least, once there was one.
const FAULTS: usize = 2;
/// At most one part in so many of a shard is kept ready.
const PART_MAX: usize = 8;

/// Learns how many seats are asked for at once.
#[derive(Debug, Default)]
pub(super) struct Need {
    /// Seats were asked for, and it was not seen yet that enough are ready again.
    is_open: bool,
    /// The size of the seat that was asked for last.
    grain: usize,
    /// How many bytes were asked for since enough were ready, and how many usually are.
    burst: usize,
    usual: usize,
}

impl Need {
    /// A seat of so many bytes is asked for, whether there is one or not.
    pub(super) fn asked(&mut self, bytes: usize) {
        (self.is_open, self.grain) = (true, bytes);
        self.burst += bytes;
    }

    pub(super) fn grain(&self) -> usize {
        self.grain
    }

    /// How many bytes are usually asked for at once.
    pub(super) fn usual(&self) -> usize {
        self.burst.max(self.usual)
    }

    /// Whether more should be ready than are, in a shard of this size.
    pub(super) fn wants(&mut self, ready: usize, shard: usize) -> bool {
        if !self.is_open && !mutant("paging.room-made-unasked") {
            return false;
        }
        let most = (shard / PART_MAX).max(self.grain);
        let wanted = self.usual().max(FAULTS * self.grain);
        if ready < wanted.min(most) {
            return true;
        }
        (self.is_open, self.usual) = (false, self.burst.max(self.usual - self.usual / 8));
        self.burst = 0;
        false
    }
}
