//! Chunks that stay in their regions.

use std::ops::Range;

use outboard_paging::pager::ChunkKey;

use super::config::SEATS_MIN;
use super::uninterrupted::Uninterrupted;
use super::{PagedRegion, Pages};

impl Pages {
    /// Sets aside the room that pinned chunks take. If one part of the buffer has too little, says how many of its bytes
    /// are pinned and how many may be.
    pub fn reserve_pins(&self, region: &PagedRegion, chunks: Range<u32>) -> Result<(), (usize, usize)> {
        let _uninterrupted = Uninterrupted::new();
        let bytes = region.chunk_bytes();
        let budget = self.config.buffer / self.shelves.len();
        // Those who use other chunks need some room too.
        let others = SEATS_MIN * bytes.max(self.config.chunk);
        let most = (budget / 2).min(budget.saturating_sub(others));
        for index in chunks.clone() {
            let key = ChunkKey { region: region.number, index };
            let mut cell = self.shelves[self.shard_of(key)].lock();
            if cell.pinned + bytes > most {
                let pinned = cell.pinned;
                drop(cell);
                self.release_pins(region, chunks.start..index);
                return Err((pinned, most));
            }
            cell.pinned += bytes;
        }
        Ok(())
    }

    /// Gives the room of pinned chunks back.
    pub fn release_pins(&self, region: &PagedRegion, chunks: Range<u32>) {
        let _uninterrupted = Uninterrupted::new();
        for index in chunks {
            let key = ChunkKey { region: region.number, index };
            self.shelves[self.shard_of(key)].lock().pinned -= region.chunk_bytes();
        }
    }

    /// Keeps a chunk in the region, or no longer. Returns whether it is there.
    pub fn pin(&self, region: &PagedRegion, index: u32, is_pinned: bool) -> bool {
        let _uninterrupted = Uninterrupted::new();
        let key = ChunkKey { region: region.number, index };
        self.shelves[self.shard_of(key)].lock().shard.pin(key, is_pinned)
    }
}
