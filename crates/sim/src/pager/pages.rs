//! What is done to single chunks: what the shards answer, put into practice.

use std::collections::BTreeMap;

use fastrand::Rng;
use outboard_paging::pager::{
    Access, Answer, ChunkKey, Placement, ReadAhead, SeatId, Shard, SizeClass, State,
};

use super::jobs::{Errand, Job, PageSet};
use super::layout::{PAGE, PLANS, Plan, REGIONS, Shape};
use super::model::Model;
use super::space::Space;
use crate::Recorder;

/// A region as the application has mapped it.
pub(super) struct Mapping {
    /// Its number in this process: no two mappings have the same.
    pub(super) number: u32,
    pub(super) ahead: ReadAhead,
    /// What write-backs carry.
    pub(super) epoch: u64,
    /// How many fault threads wait for the server to fence off what was sent before; saves wait for them.
    pub(super) fencing: u32,
    /// Nobody begins to use it any more.
    pub(super) is_leaving: bool,
    /// What was not flushed is not missed.
    pub(super) is_given_up: bool,
    /// It is being unmapped.
    pub(super) is_closing: bool,
}

impl Mapping {
    fn new(number: u32, window_max: u32, epoch: u64) -> Self {
        let ahead = ReadAhead::new(plan(number).chunks, window_max);
        let (is_leaving, is_given_up, is_closing) = (false, false, false);
        Self { number, ahead, epoch, fencing: 0, is_leaving, is_given_up, is_closing }
    }
}

/// Which region a mapping is of.
pub(super) fn region_of(number: u32) -> usize {
    number as usize % REGIONS
}

fn plan(number: u32) -> &'static Plan {
    &PLANS[region_of(number)]
}

/// What is known of the pages of a frame: the bytes that the server has.
type Notes = BTreeMap<(SizeClass, u32), Vec<Vec<u8>>>;

/// A shard with what is remembered of its frames.
pub(super) struct Cell {
    pub(super) shard: Shard,
    notes: Notes,
}

/// All far memory of the application.
pub(super) struct Pages {
    pub(super) recorder: Recorder,
    pub(super) model: Model,
    pub(super) space: Space,
    pub(super) cells: Vec<Cell>,
    pub(super) mappings: [Mapping; REGIONS],
    /// Chunks whose waiters may look again.
    pub(super) woken: Vec<ChunkKey>,
    random: Rng,
    shape: Shape,
}

impl Pages {
    pub(super) fn new(recorder: Recorder, model: Model, random: Rng, shape: Shape) -> Self {
        let cell = || Cell { shard: Shard::new(shape.config), notes: Notes::new() };
        Self {
            space: Space::new(recorder.clone(), shape.shards, shape.config.budget),
            recorder,
            model,
            cells: std::iter::repeat_with(cell).take(shape.shards).collect(),
            mappings: std::array::from_fn(|region| Mapping::new(region as u32, shape.window_max, 1)),
            woken: Vec::new(),
            random,
            shape,
        }
    }

    /// The mapping of a number, if it is still there.
    pub(super) fn mapping(&mut self, number: u32) -> Option<&mut Mapping> {
        Some(&mut self.mappings[region_of(number)]).filter(|mapping| mapping.number == number)
    }

    fn is_closing(&self, number: u32) -> bool {
        let mapping = &self.mappings[region_of(number)];
        mapping.number != number || mapping.is_closing
    }

    pub(super) fn is_writable(&self, region: usize) -> bool {
        self.shape.is_writable[region]
    }

    /// A region that was unmapped is mapped again.
    pub(super) fn map_anew(&mut self, region: usize) {
        let Mapping { number, epoch, is_given_up, .. } = self.mappings[region];
        if is_given_up {
            self.model.adopt(region);
        }
        self.mappings[region] = Mapping::new(number + REGIONS as u32, self.shape.window_max, epoch);
    }

    /// Which shard a chunk belongs to. Neighbours belong to different ones.
    pub(super) fn shard_of(&self, key: ChunkKey) -> usize {
        (key.index as usize + key.region as usize * 7) % self.cells.len()
    }

    /// A thread touches a word. If the chunk is absent, nothing happens until it is there.
    pub(super) fn touch(&mut self, region: usize, word: usize, access: Access) -> Result<ChunkKey, ChunkKey> {
        let (index, offset) = PLANS[region].place(word);
        let key = ChunkKey { region: self.mappings[region].number, index };
        let found = self.space.load(key, offset).ok_or(key)?;
        self.model.load(region, word, found);
        if access == Access::Write {
            let value = self.model.store(region, word);
            self.space.store(key, offset, value);
        }
        Ok(key)
    }

    /// A thread waits for a chunk.
    pub(super) fn fault(&mut self, key: ChunkKey, access: Access) -> Option<Job> {
        if self.is_closing(key.region) {
            return None;
        }
        let (shard, class) = (self.shard_of(key), plan(key.region).class);
        // The kernel may hold every chunk that is in the region, until those that are on their way have arrived.
        let mut held = 0;
        loop {
            match self.cells[shard].shard.fault(key, class, access) {
                Answer::Here => self.woken.push(key),
                Answer::Joined | Answer::Parked => {}
                Answer::Rescue(seat) => self.rescue(shard, seat),
                Answer::Fetch(seat) => {
                    self.discard_frames(shard);
                    return Some(Job::new(Errand::Demand, key, shard, seat));
                }
                Answer::MakeRoom => {
                    let oldest = self.cells[shard].shard.oldest();
                    held += usize::from(!oldest.is_some_and(|seat| self.move_out(shard, seat)));
                    if held <= self.cells[shard].shard.residents() {
                        continue;
                    }
                    self.cells[shard].shard.park(key, class, access);
                }
            }
            return None;
        }
    }

    /// A chunk that will be wanted, unless there is no seat for it or it is known.
    pub(super) fn ahead(&mut self, key: ChunkKey, stay: bool) -> Option<Job> {
        if self.is_closing(key.region) {
            return None;
        }
        let shard = self.shard_of(key);
        let seat = self.cells[shard].shard.fetch_ahead(key, plan(key.region).class)?;
        self.discard_frames(shard);
        Some(Job::new(Errand::Ahead { stay }, key, shard, seat))
    }

    /// The bytes of a chunk have arrived in its seat.
    pub(super) fn fetched(&mut self, job: &Job) {
        let Job { key, shard, seat, .. } = *job;
        if self.is_closing(key.region) {
            self.cells[shard].shard.failed(seat);
            return;
        }
        let (_, len) = plan(key.region).span(key.index);
        let frame = self.cells[shard].shard.frame(seat);
        self.space.clear(shard, frame, len);
        if self.is_writable(region_of(key.region)) {
            if self.cells[shard].shard.is_for_writing(seat) && self.shape.saves_are_cheap {
                self.cells[shard].shard.set_changed(seat);
            } else {
                self.take_notes(shard, seat, PageSet::first(len.div_ceil(PAGE)));
            }
        }
        let stay = job.errand == Errand::Ahead { stay: true };
        if self.cells[shard].shard.filled(seat, stay) == Placement::MoveIn {
            self.move_in(shard, seat);
            self.cells[shard].shard.arrived(seat);
        }
    }

    /// The bytes of a chunk cannot be had now; those who wait come again.
    pub(super) fn fetch_failed(&mut self, job: &Job) {
        self.cells[job.shard].shard.failed(job.seat);
        self.woken.push(job.key);
    }

    pub(super) fn rescue(&mut self, shard: usize, seat: SeatId) {
        let key = self.cells[shard].shard.key(seat);
        let cell = &mut self.cells[shard];
        if self.shape.is_writable[region_of(key.region)]
            && !cell.shard.has_baseline(seat)
            && !cell.shard.is_changed(seat)
        {
            if cell.shard.is_for_writing(seat) {
                cell.shard.set_changed(seat);
            } else {
                let (_, len) = plan(key.region).span(key.index);
                self.take_notes(shard, seat, PageSet::first(len.div_ceil(PAGE)));
            }
        }
        self.move_in(shard, seat);
        self.cells[shard].shard.rescued(seat);
    }

    fn move_in(&mut self, shard: usize, seat: SeatId) {
        let (key, frame) = (self.cells[shard].shard.key(seat), self.cells[shard].shard.frame(seat));
        self.recorder.note("move in", &facts(key));
        self.space.move_in(shard, frame, key);
        self.woken.push(key);
    }

    /// Moves a chunk out of its region, and finds out whether it was changed. Returns false if it is held.
    pub(super) fn move_out(&mut self, shard: usize, seat: SeatId) -> bool {
        let busy_one_in = self.shape.busy_one_in;
        if busy_one_in > 0 && self.random.u32(..busy_one_in) == 0 {
            self.cells[shard].shard.stuck(seat);
            return false;
        }
        let (key, frame) = (self.cells[shard].shard.key(seat), self.cells[shard].shard.frame(seat));
        self.space.move_out(shard, frame, key);
        let is_changed =
            self.is_writable(region_of(key.region)) && self.changed_pages(shard, seat) != PageSet::EMPTY;
        self.recorder.note("move out", &[facts(key)[0], facts(key)[1], ("changed", is_changed.into())]);
        self.cells[shard].shard.left(seat, is_changed);
        true
    }

    /// Moves out the chunk that is next, if the shard wants room. Returns whether anything was done.
    pub(super) fn make_room(&mut self, shard: usize) -> bool {
        if !self.cells[shard].shard.wants_room() {
            return false;
        }
        let oldest = self.cells[shard].shard.oldest();
        oldest.is_some_and(|oldest| self.move_out(shard, oldest))
    }

    /// Moves out a chunk that will hardly be needed again.
    pub(super) fn dismiss(&mut self, key: ChunkKey) {
        let shard = self.shard_of(key);
        if let Some(seat) = self.cells[shard].shard.resident(key) {
            self.move_out(shard, seat);
        }
        self.cells[shard].shard.demote(key);
    }

    /// Moves out what a flush waits for. Returns how much of it is not at the server yet, in chunks.
    pub(super) fn write_back(&mut self, number: u32) -> usize {
        let mut owed = 0;
        for shard in 0..self.cells.len() {
            let keys: Vec<ChunkKey> = self.cells[shard].shard.owed_here(number).collect();
            for key in keys {
                if let Some(seat) = self.cells[shard].shard.owed_seat(key)
                    && self.move_out(shard, seat)
                    && self.cells[shard].shard.state(key) == State::Aside
                    && self.cells[shard].shard.is_pinned(seat)
                {
                    self.rescue(shard, seat);
                }
            }
            owed += self.cells[shard].shard.owed(number);
        }
        owed
    }

    /// The next changed chunk of a shard for the server, among the mappings that `is_open` names.
    pub(super) fn next_save(&mut self, shard: usize, is_open: impl Fn(u32) -> bool) -> Option<Job> {
        let mappings = &self.mappings;
        let can_save = |key: ChunkKey| {
            let mapping = &mappings[region_of(key.region)];
            let is_held = mapping.number != key.region || mapping.is_closing || mapping.fencing > 0;
            !is_held && is_open(key.region)
        };
        let seat = self.cells[shard].shard.save_next(can_save)?;
        let changed = self.changed_pages(shard, seat);
        if self.cells[shard].shard.has_baseline(seat) {
            self.take_notes(shard, seat, changed);
        }
        let key = self.cells[shard].shard.key(seat);
        self.recorder.note("save", &facts(key));
        Some(Job::new(Errand::Save(changed), key, shard, seat))
    }

    /// All bytes of a chunk on its way to the server have been read from its seat.
    pub(super) fn save_sent(&mut self, job: &Job) {
        if self.cells[job.shard].shard.sent(job.seat) {
            self.rescue(job.shard, job.seat);
        }
    }

    /// The server has a chunk, or may not have it.
    pub(super) fn save_ended(&mut self, job: &Job, has_it: bool) {
        let [region, index] = facts(job.key);
        self.recorder.note("saved", &[region, index, ("ok", has_it.into())]);
        if has_it {
            self.cells[job.shard].shard.saved(job.seat);
        } else if self.cells[job.shard].shard.save_failed(job.seat) {
            self.rescue(job.shard, job.seat);
        }
    }

    /// Which pages of a chunk in its seat differ from what the server has.
    fn changed_pages(&mut self, shard: usize, seat: SeatId) -> PageSet {
        let cell = &self.cells[shard];
        let (key, frame) = (cell.shard.key(seat), cell.shard.frame(seat));
        let (_, len) = plan(key.region).span(key.index);
        let pages = len.div_ceil(PAGE);
        if !cell.shard.has_baseline(seat) {
            return PageSet::first(pages);
        }
        let mut changed = PageSet::EMPTY;
        let notes = self.cells[shard].notes.get(&(frame.class, frame.slot)).cloned().unwrap_or_default();
        for page in 0..pages {
            if notes.get(page) != Some(&self.space.page(shard, frame, page)) {
                changed.insert(page);
            }
        }
        changed
    }

    /// Remembers pages of a chunk in its seat as what the server has.
    pub(super) fn take_notes(&mut self, shard: usize, seat: SeatId, pages: PageSet) {
        let frame = self.cells[shard].shard.frame(seat);
        let count = frame.class.bytes() / PAGE;
        let notes = self.cells[shard].notes.entry((frame.class, frame.slot)).or_default();
        notes.resize(count, Vec::new());
        for page in (0..count).filter(|page| pages.contains(*page)) {
            notes[page] = self.space.page(shard, frame, page);
        }
        self.cells[shard].shard.set_baseline(seat);
    }

    fn discard_frames(&mut self, shard: usize) {
        while let Some(frame) = self.cells[shard].shard.discarded() {
            self.space.discard(shard, frame);
        }
    }
}

/// A chunk, to be noted.
pub(super) fn facts(key: ChunkKey) -> [crate::Fact; 2] {
    [("region", key.region.into()), ("chunk", key.index.into())]
}
