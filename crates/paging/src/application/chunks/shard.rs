//! The state of a share of all chunks.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use outboard_wire::mutant;

use super::answer::{Answer, ArrivalStep, Counts};
use super::chunk::{Access, ChunkKey, KeyHasher, SeatFrame, SeatId, SizeClass};
use super::debts::Debt;
use super::ghosts::Ghosts;
use super::lists::{Links, Queue};
use super::need::Need;
use super::pool::Pool;
use super::replacement::Replacement;
use super::state::{Event, State, TRANSITIONS, edge};

#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) key: ChunkKey,
    pub(super) frame: SeatFrame,
    pub(super) state: State,
    /// It is not on trial.
    pub(super) is_kept: bool,
    /// It was moved out to see whether it is used, or waits for its first use.
    pub(super) is_sample: bool,
    /// When it was last seen to be touched, counted in chunks that came.
    pub(super) since: u64,
    pub(super) is_pinned: bool,
    /// How many threads read or write it in the region just now.
    pub(super) holds: u32,
    /// Differs from the server's in unknown places.
    pub(super) is_changed: bool,
    /// Its bytes at the server are known by its fingerprints.
    pub(super) has_baseline: bool,
    /// A thread waits for it.
    pub(super) is_awaited: bool,
    /// A thread that waits wants to write.
    pub(super) is_for_writing: bool,
    /// Its bytes are being read out of the seat, where they must stay until that is done.
    pub(super) is_sending: bool,
    pub(super) debt: Debt,
}

/// A fault that found all seats under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParkedFault {
    pub(super) key: ChunkKey,
    pub(super) class: SizeClass,
    pub(super) access: Access,
}

/// The state of a share of all chunks.
pub struct Shard {
    pub(super) pool: Arc<Pool>,
    /// How many bytes of seats it may have while others leave them to it.
    pub(super) most: usize,
    /// How many bytes of its share it has asked others for.
    pub(super) claimed: usize,
    pub(super) is_starving: bool,
    pub(super) seats: Vec<Seat>,
    pub(super) links: Vec<Links>,
    pub(super) chunks: HashMap<ChunkKey, u32, BuildHasherDefault<KeyHasher>>,
    /// How many of these are pages of divided chunks.
    pub(super) pages: usize,
    /// In the region and kept, by the time they came.
    pub(super) kept: Queue,
    /// In the region and on trial, by the time they came.
    pub(super) on_trial: Queue,
    /// Clean and in their seats, by the time they left.
    pub(super) aside: Queue,
    /// Clean and in their seats, moved out to see whether they are used, by the time they left.
    pub(super) samples: Queue,
    /// Changed and in their seats.
    pub(super) dirty: Queue,
    /// Seats without a chunk, whose frames hold old bytes.
    pub(super) free: Vec<u32>,
    /// Places in `seats` without a frame.
    pub(super) vacant: Vec<u32>,
    /// Frames that were given back, to be used again; and to be emptied by the caller.
    pub(super) spare_frames: Vec<SeatFrame>,
    pub(super) discarded: Vec<SeatFrame>,
    pub(super) next_slot: [u32; 32],
    pub(super) used: usize,
    /// Bytes of seats that can be taken, of samples not counted, and of chunks on trial in the region.
    pub(super) aside_bytes: usize,
    pub(super) trial_used: usize,
    /// Whether the seat that was taken last was a new one.
    pub(super) has_grown: bool,
    pub(super) replacement: Replacement,
    pub(super) free_bytes: usize,
    /// Bytes of changed chunks in their seats, which can be taken when the server has them.
    pub(super) unsaved_bytes: usize,
    /// How many of these are on their way to the server.
    pub(super) saving: usize,
    pub(super) need: Need,
    /// Chunks that have left their seats lately.
    pub(super) ghosts: Ghosts,
    pub(super) parked: VecDeque<ParkedFault>,
    pub(super) counts: Counts,
}

impl Shard {
    /// A shard without chunks, with a budget of its own.
    pub fn new(budget: usize) -> Self {
        Self::of(Arc::new(Pool::new(budget, budget, 1)))
    }

    /// A shard without chunks, with a share of a budget that others have the rest of.
    pub fn of(pool: Arc<Pool>) -> Self {
        Self {
            most: pool.most_of_shard(),
            pool,
            claimed: 0,
            is_starving: false,
            seats: Vec::new(),
            links: Vec::new(),
            chunks: HashMap::default(),
            pages: 0,
            kept: Queue::default(),
            on_trial: Queue::default(),
            aside: Queue::default(),
            samples: Queue::default(),
            dirty: Queue::default(),
            free: Vec::new(),
            vacant: Vec::new(),
            spare_frames: Vec::new(),
            discarded: Vec::new(),
            next_slot: [0; 32],
            used: 0,
            aside_bytes: 0,
            trial_used: 0,
            has_grown: false,
            replacement: Replacement::default(),
            free_bytes: 0,
            unsaved_bytes: 0,
            saving: 0,
            need: Need::default(),
            ghosts: Ghosts::default(),
            parked: VecDeque::with_capacity(64),
            counts: Counts::default(),
        }
    }

    /// How many bytes of seats it can always have.
    pub(super) fn share(&self) -> usize {
        self.pool.share()
    }

    /// Makes room for the records of as many chunks of this size as fit, so that no fault allocates.
    pub fn prepare(&mut self, class: SizeClass) {
        let most = self.most / class.bytes();
        self.seats.reserve(most);
        self.links.reserve(most);
        // A map that is at most half full clears what was removed without growing.
        self.chunks.reserve(2 * most);
        self.ghosts.prepare(self.most.div_ceil(2) / class.bytes());
        self.free.reserve(most);
        self.vacant.reserve(most);
        self.spare_frames.reserve(most);
        self.discarded.reserve(most);
    }

    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Bytes of seats that exist. Those of all shards grow to the budget at most.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Where a chunk stands.
    pub fn state(&self, key: ChunkKey) -> State {
        self.chunks.get(&key).map_or(State::Absent, |seat| self.seats[*seat as usize].state)
    }

    /// All seats that hold chunks.
    pub fn seats(&self) -> impl Iterator<Item = (SeatId, ChunkKey, State)> {
        let all = self.seats.iter().enumerate();
        all.map(|(at, seat)| (SeatId(at as u32), seat.key, seat.state))
            .filter(|(_, _, state)| *state != State::Absent)
    }

    /// Which chunk a seat holds.
    pub fn key(&self, seat: SeatId) -> ChunkKey {
        self.seat(seat.0).key
    }

    /// Where a seat's bytes lie.
    pub fn frame(&self, seat: SeatId) -> SeatFrame {
        self.seat(seat.0).frame
    }

    /// Whether what the server has of it is known by its fingerprints.
    pub fn has_baseline(&self, seat: SeatId) -> bool {
        self.seat(seat.0).has_baseline
    }

    /// Whether it differs from the server's in unknown places.
    pub fn is_changed(&self, seat: SeatId) -> bool {
        self.seat(seat.0).is_changed
    }

    /// Its fingerprints have been taken, and are those of what the server has.
    pub fn set_baseline(&mut self, seat: SeatId) {
        self.seat_mut(seat.0).has_baseline = true;
    }

    /// It is to be treated as changed everywhere.
    pub fn set_changed(&mut self, seat: SeatId) {
        let seat = self.seat_mut(seat.0);
        (seat.is_changed, seat.has_baseline) = (true, false);
    }

    /// Whether a thread that waits for a chunk wants to write it.
    pub fn is_for_writing(&self, seat: SeatId) -> bool {
        self.seat(seat.0).is_for_writing
    }

    /// A thread waits for a chunk.
    pub fn fault(&mut self, key: ChunkKey, class: SizeClass, access: Access) -> Answer {
        if let Some(&index) = self.chunks.get(&key) {
            return self.fault_on_known(index, access);
        }
        if self.spares_a_sample(class) {
            return Answer::MakeRoom;
        }
        let Some(index) = self.take_seat(class) else {
            if self.may_make_room(class) && self.oldest().is_some() {
                return Answer::MakeRoom;
            }
            self.park(key, class, access);
            return Answer::Parked;
        };
        self.counts.fetched += 1;
        self.counts.pages += u64::from(key.page.is_some());
        self.begin_fetch(index, key, Some(access));
        Answer::Fetch(SeatId(index))
    }

    /// How many chunks are in the region.
    pub fn residents(&self) -> usize {
        self.kept.len() + self.on_trial.len()
    }

    fn fault_on_known(&mut self, index: u32, access: Access) -> Answer {
        let is_for_writing = access == Access::Write;
        let seat = self.seat_mut(index);
        match seat.state {
            State::Resident | State::Returned => {
                self.counts.here += 1;
                Answer::Here
            }
            State::Fetching | State::Saving
                if seat.state == State::Fetching
                    || (seat.is_sending && !mutant("paging.rescued-while-it-is-sent")) =>
            {
                seat.is_awaited = true;
                seat.is_for_writing |= is_for_writing;
                self.counts.joined += 1;
                Answer::Joined
            }
            State::Aside | State::Dirty | State::Saving => {
                seat.is_for_writing = is_for_writing;
                Answer::Rescue(SeatId(index))
            }
            State::Fetching | State::Absent => unreachable!("absent chunks have no seats"),
        }
    }

    /// Takes a seat for a chunk that no thread waits for, unless it is known or that would cost another its place in
    /// the region.
    pub fn fetch_ahead(&mut self, key: ChunkKey, class: SizeClass) -> Option<SeatId> {
        if self.chunks.contains_key(&key) {
            return None;
        }
        let index = self.take_seat(class)?;
        self.counts.ahead += 1;
        self.begin_fetch(index, key, None);
        Some(SeatId(index))
    }

    fn begin_fetch(&mut self, index: u32, key: ChunkKey, access: Option<Access>) {
        let frame = self.seat(index).frame;
        let last_seen = self.ghosts.remove(key);
        let is_kept = self.judge(last_seen);
        self.seats[index as usize] = Seat {
            key,
            frame,
            state: State::Absent,
            is_kept,
            is_sample: false,
            since: self.replacement.clock,
            is_pinned: false,
            holds: 0,
            is_changed: false,
            has_baseline: false,
            is_awaited: access.is_some(),
            is_for_writing: access == Some(Access::Write),
            is_sending: false,
            debt: Debt::default(),
        };
        self.go(index, Event::Fetch);
        self.chunks.insert(key, index);
        self.pages += usize::from(key.page.is_some());
    }

    /// The bytes of a chunk are in its seat. With `stay`, it is not moved in unless a thread waits for it.
    pub fn filled(&mut self, seat: SeatId, stay: bool) -> ArrivalStep {
        if self.seat(seat.0).is_awaited || !stay {
            return ArrivalStep::MoveIn;
        }
        self.go(seat.0, Event::Wait);
        // Those that came before it and were used can leave before it.
        let waiting = self.seat_mut(seat.0);
        (waiting.is_sample, waiting.is_kept) = (true, false);
        self.enter_aside(seat.0);
        ArrivalStep::Stay
    }

    /// A chunk that is known to be zero was filled with zeros, and is not asked for. The rest is as of one that was
    /// [`filled`](Shard::filled), but that [`came_blank`](Shard::came_blank) is said when it is in the region.
    pub fn blanked(&mut self, seat: SeatId, stay: bool) -> ArrivalStep {
        let asked =
            if self.seat(seat.0).is_awaited { &mut self.counts.fetched } else { &mut self.counts.ahead };
        *asked -= 1;
        self.counts.blank += 1;
        self.filled(seat, stay)
    }

    /// A chunk that was filled with zeros is in the region.
    pub fn came_blank(&mut self, seat: SeatId) {
        self.enter_region(seat, Event::Blank);
    }

    /// A chunk that was filled is in the region.
    pub fn arrived(&mut self, seat: SeatId) {
        self.enter_region(seat, Event::Arrive);
    }

    fn enter_region(&mut self, seat: SeatId, event: Event) {
        self.go(seat.0, event);
        self.seat_mut(seat.0).is_awaited = false;
        self.enter_region_newest(seat.0);
    }

    /// The bytes of a chunk cannot be had. Returns whether a thread waits for it.
    pub fn failed(&mut self, seat: SeatId) -> bool {
        self.go(seat.0, Event::Fail);
        let was_awaited = self.seat(seat.0).is_awaited;
        self.set_free(seat.0);
        was_awaited
    }

    /// A chunk was moved from its seat into the region.
    pub fn rescued(&mut self, seat: SeatId) {
        match self.seat(seat.0).state {
            State::Aside => self.leave_aside(seat.0),
            State::Dirty => self.dirty.remove(&mut self.links, seat.0),
            _ => {}
        }
        self.go(seat.0, Event::Rescue);
        self.counts.rescued += 1;
        self.judge_rescued(seat.0);
        self.enter_region_newest(seat.0);
    }

    /// The chunk of this key, if it is in the region and can be moved out.
    pub fn resident(&self, key: ChunkKey) -> Option<SeatId> {
        let index = *self.chunks.get(&key)?;
        (self.may_leave(index) && !self.seat(index).is_pinned).then_some(SeatId(index))
    }

    /// A chunk was moved out of the region into its seat.
    pub fn left(&mut self, seat: SeatId, is_changed: bool) {
        self.leave_region(seat.0);
        if self.seat(seat.0).is_sample {
            self.seat_mut(seat.0).since = self.replacement.clock;
        }
        if is_changed {
            self.go(seat.0, Event::LeaveDirty);
            self.dirty.push_newest(&mut self.links, seat.0);
        } else {
            self.go(seat.0, Event::LeaveClean);
            self.seat_mut(seat.0).debt.cancel();
            self.enter_aside(seat.0);
        }
    }

    /// A chunk cannot be moved out, because the kernel holds its pages. It counts as new.
    pub fn stuck(&mut self, seat: SeatId) {
        self.leave_region(seat.0);
        self.seat_mut(seat.0).is_sample = false;
        self.replacement.is_held = true;
        self.enter_region_newest(seat.0);
    }

    /// A chunk in its seat will hardly be needed again: its seat is the next to be taken.
    pub fn demote(&mut self, key: ChunkKey) {
        let Some(&index) = self.chunks.get(&key) else { return };
        if self.seat(index).state == State::Aside {
            self.leave_aside(index);
            self.seat_mut(index).is_sample = false;
            self.enter_aside(index);
            self.aside.remove(&mut self.links, index);
            self.aside.push_oldest(&mut self.links, index);
        }
    }

    /// The next changed chunk for the server. When its bytes have been read, say [`sent`](Shard::sent); then
    /// [`saved`](Shard::saved) or [`save_failed`](Shard::save_failed).
    pub fn save_next(&mut self, can_save: impl Fn(ChunkKey) -> bool) -> Option<SeatId> {
        let mut candidate = self.dirty.oldest();
        while let Some(index) = candidate {
            if can_save(self.seat(index).key) {
                self.dirty.remove(&mut self.links, index);
                self.go(index, Event::Save);
                let seat = self.seat_mut(index);
                // One that is pinned comes back as soon as it has been read.
                (seat.is_sending, seat.is_awaited) = (true, seat.is_pinned);
                seat.debt.begin();
                self.counts.saved += 1;
                return Some(SeatId(index));
            }
            candidate = self.dirty.newer(&self.links, index);
        }
        None
    }

    /// How many changed chunks wait for the server.
    pub fn unsaved(&self) -> usize {
        self.dirty.len()
    }

    /// The bytes of a chunk on its way to the server have been read. Returns whether a thread waits for it: then move
    /// it in and say [`rescued`](Shard::rescued).
    pub fn sent(&mut self, seat: SeatId) -> bool {
        let seat = self.seat_mut(seat.0);
        seat.is_sending = false;
        std::mem::take(&mut seat.is_awaited)
    }

    /// The server has a chunk as it was when it was sent.
    pub fn saved(&mut self, seat: SeatId) {
        self.go(seat.0, Event::Saved);
        self.seat_mut(seat.0).debt.end();
        if self.seat(seat.0).state == State::Aside {
            self.seat_mut(seat.0).is_changed = false;
            self.enter_aside(seat.0);
        }
    }

    /// The server may not have a chunk. It stays here, changed in unknown places. Returns whether a thread waits for
    /// it, as [`sent`](Shard::sent) does.
    pub fn save_failed(&mut self, seat: SeatId) -> bool {
        self.go(seat.0, Event::SaveFail);
        self.set_changed(seat);
        self.seat_mut(seat.0).debt.fail();
        if self.seat(seat.0).state == State::Dirty {
            self.dirty.push_newest(&mut self.links, seat.0);
        }
        self.sent(seat)
    }

    pub(super) fn go(&mut self, index: u32, event: Event) {
        let seat = self.seat_mut(index);
        let Some(way) = edge(seat.state, event) else {
            unreachable!("{event:?} of a chunk that is {:?}", seat.state);
        };
        let (before, after) = (seat.state, TRANSITIONS[way].2);
        seat.state = after;
        let bytes = seat.frame.class.bytes();
        self.counts.edges[way] += 1;
        let is_unsaved = |state| matches!(state, State::Dirty | State::Saving);
        self.unsaved_bytes += usize::from(is_unsaved(after)) * bytes;
        self.unsaved_bytes -= usize::from(is_unsaved(before)) * bytes;
        self.saving += usize::from(after == State::Saving);
        self.saving -= usize::from(before == State::Saving);
    }

    pub(super) fn seat(&self, index: u32) -> &Seat {
        &self.seats[index as usize]
    }

    pub(super) fn seat_mut(&mut self, index: u32) -> &mut Seat {
        &mut self.seats[index as usize]
    }
}
