//! Invariants that hold whenever a turn is over.

use std::collections::BTreeSet;

use outboard_paging::application::chunks::State;

use super::application::Application;

impl Application {
    /// Frames are conserved, no two chunks share one, and a chunk is in its region or in its frame.
    pub(super) fn audit(&mut self) {
        // It grows no further than it may, and while it is too large, not at all.
        let budget = self.far.pages.buffer().max(self.buffer_allowed);
        let (mut frames, mut keys, mut residents, mut taken, mut used) =
            (BTreeSet::new(), BTreeSet::new(), 0, 0, 0);
        let objects = self.far.objects.iter().filter(|object| !object.is_closing);
        let regions: Vec<_> = objects.flat_map(|object| &object.parts).collect();
        for (shard, cell) in self.far.pages.cells().enumerate() {
            let cell = cell.shard();
            used += cell.used();
            for (seat, key, state) in cell.seats() {
                let frame = self.far.pages.frame(shard, cell.frame(seat));
                taken += frame.len();
                let is_new = frames.insert(frame.start()) && keys.insert(key);
                self.recorder
                    .expect(is_new, || format!("each chunk has a frame of its own: {key:?} has not"));
                let Some(region) = regions.iter().find(|region| region.number() == key.region) else {
                    continue;
                };
                let clashes = cell.clashes(key, region.pages());
                self.recorder
                    .expect(!clashes, || format!("what is divided is not here as a whole too: {key:?}"));
                let is_here = matches!(state, State::Resident | State::Returned);
                residents += usize::from(is_here);
                let addresses = region.span_of(key);
                let mut space = self.far.space().state();
                let is_right = space.holds(addresses) == is_here
                    && space.lent_to(frame) == is_here.then_some(addresses.start);
                self.recorder.expect(is_right, || {
                    format!("a chunk is in its region or in its frame, and its state says where: {key:?} {state:?}")
                });
            }
        }
        self.recorder.expect(taken <= used && used <= budget && used == self.far.pages.buffer_used(), || {
            format!("chunks have frames within the buffer: {taken} of {used} of {budget} bytes")
        });
        self.buffer_allowed = used;
        let mut space = self.far.space().state();
        let lent = space.lent();
        self.recorder.expect(lent == residents, || {
            format!("bytes belong to chunks: {lent} frames are without, {residents} chunks are in regions")
        });
        space.objections.drain(..).for_each(|objection| self.recorder.fail(objection));
        if let Some((object, part, chunk)) = self.chores.pinned() {
            let is_there = space.holds(self.far.objects[object].parts[part].addresses_of(chunk));
            self.recorder
                .expect(is_there, || format!("what is pinned stays: chunk {chunk} of object {object}"));
        }
    }
}
