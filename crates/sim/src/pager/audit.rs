//! What must be so whenever a turn is over.

use std::collections::BTreeSet;

use outboard_paging::pager::State;

use super::application::Application;

impl Application {
    /// Frames are conserved, no two chunks share one, and a chunk is in its region or in its frame.
    pub(super) fn audit(&mut self) {
        let (mut frames, mut keys, mut residents) = (BTreeSet::new(), BTreeSet::new(), 0);
        for shard in 0..self.pages.cells.len() {
            let cell = &self.pages.cells[shard];
            let (used, budget) = (cell.shard.used(), self.shape.config.budget);
            let seats: Vec<_> =
                cell.shard.seats().map(|(seat, key, state)| (cell.shard.frame(seat), key, state)).collect();
            let taken: usize = seats.iter().map(|(frame, ..)| frame.class.bytes()).sum();
            self.recorder.expect(taken <= used && used <= budget, || {
                format!("chunks have frames within the budget: {taken} of {used} of {budget} bytes")
            });
            for (frame, key, state) in seats {
                let is_new = frames.insert((shard, frame.class, frame.slot)) && keys.insert(key);
                self.recorder
                    .expect(is_new, || format!("each chunk has a frame of its own: {key:?} has {frame:?}"));
                let is_here = matches!(state, State::Resident | State::Returned);
                residents += usize::from(is_here);
                let is_right = self.pages.space.is_resident(key) == is_here
                    && self.pages.space.is_lent(shard, frame, key) == is_here;
                self.recorder.expect(is_right, || {
                    format!("a chunk is in its region or in its frame, and its state says where: {key:?} {state:?}")
                });
            }
        }
        let (there, lent) = (self.pages.space.residents(), self.pages.space.lent());
        self.recorder.expect(there == residents && lent == residents, || {
            format!(
                "bytes belong to chunks: {there} in regions, {lent} frames without, {residents} residents"
            )
        });
        if let Some(key) = self.chores.pinned() {
            let is_there = self.pages.space.is_resident(key);
            self.recorder.expect(is_there, || format!("what is pinned stays: {key:?} does not"));
        }
    }
}
