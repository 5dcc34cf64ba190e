//! The choice between a chunk and a page when a thread touches an absent one, and how divided chunks become whole again.

use outboard_wire::mutant;

use super::chunks::{ChunkKey, State};
use super::grain::Grain;
use super::pages::{Cell, Pages};
use super::region::PagedRegion;
use super::space::PageSpace;

impl<S: PageSpace> Pages<S> {
    /// The chunk or page that a thread waits for that touches a page: the chunk, unless it is divided or its pages come one by one.
    pub(super) fn unit(
        &self,
        cell: &mut Cell,
        shard: usize,
        region: &PagedRegion,
        (index, page): (u32, u16),
    ) -> ChunkKey {
        let whole = region.key(index);
        if cell.shard.has(whole) || !region.can_be_divided(index) {
            return whole;
        }
        let page = whole.of_page(page);
        let alone = match region.grain(index) {
            (Grain::Chunk, _) => false,
            (Grain::Page, is_said) => is_said || !self.pool.has_room(),
        };
        let is_page = alone || cell.shard.has(page) || !self.is_whole(cell, shard, region, index);
        if is_page { page } else { whole }
    }

    /// The absent part of a chunk: all of it, or the next of its pages from `from` on.
    pub(super) fn absent_part(
        &self,
        cell: &mut Cell,
        shard: usize,
        (region, index): (&PagedRegion, u32),
        from: &mut u16,
    ) -> Option<ChunkKey> {
        let (whole, pages) = (region.key(index), region.pages());
        if cell.shard.has(whole) || *from >= pages {
            return None;
        }
        // One that has been begun page by page goes on like that.
        if *from == 0 && self.is_whole(cell, shard, region, index) {
            *from = pages;
            return Some(whole);
        }
        let page = cell.shard.absent_page(whole, *from..pages);
        *from = page.map_or(pages, |page| page + 1);
        page.map(|page| whole.of_page(page))
    }

    /// Whether a chunk that is not here as a whole is not divided either, or no longer: where chunks come, one becomes whole again
    /// when something of it is to be fetched. Its pages leave for that, if none of them was changed, is to stay or is on its way.
    fn is_whole(&self, cell: &mut Cell, shard: usize, region: &PagedRegion, index: u32) -> bool {
        let (whole, pages) = (region.key(index), region.pages());
        if !cell.shard.is_divided(whole, pages) {
            return true;
        }
        let keys = (0..pages).map(|page| whole.of_page(page));
        // A page of a lost region cannot be fetched again.
        let can_be = region.grain(index).0 == Grain::Chunk
            && !region.is_lost()
            && keys.clone().all(|key| cell.shard.can_be_gathered(key));
        if !can_be {
            return false;
        }
        for key in keys.clone() {
            if let Some(seat) = cell.shard.resident(key)
                && !self.move_out(cell, shard, seat)
            {
                return false;
            }
        }
        let is_changed = |key| cell.shard.state(key) == State::Dirty;
        if keys.clone().any(is_changed) && !mutant("paging.gathered-though-changed") {
            return false;
        }
        keys.for_each(|key| cell.shard.gather(key));
        true
    }
}
