//! The state of a share of all chunks.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use outboard_wire::mutant;

use super::answer::{Answer, Counts, Placement, ShardConfig};
use super::chunk::{Access, ChunkKey, Frame, KeyHasher, SeatId, SizeClass};
use super::debts::Debt;
use super::lists::{Links, Queue};
use super::state::{Event, State, TRANSITIONS, edge};

#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub(super) key: ChunkKey,
    pub(super) frame: Frame,
    pub(super) state: State,
    /// Rescued since it was last the oldest.
    pub(super) is_hot: bool,
    pub(super) is_pinned: bool,
    /// How many threads read or write it in the region just now.
    pub(super) holds: u32,
    /// Differs from the server's in unknown places.
    pub(super) is_changed: bool,
    /// What it was at the server is known by its fingerprints.
    pub(super) has_baseline: bool,
    /// Somebody waits for it.
    pub(super) is_awaited: bool,
    /// Whoever waits wants to write.
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
    pub(super) config: ShardConfig,
    pub(super) seats: Vec<Seat>,
    pub(super) links: Vec<Links>,
    pub(super) chunks: HashMap<ChunkKey, u32, BuildHasherDefault<KeyHasher>>,
    /// In the region, by the time they came.
    pub(super) resident: Queue,
    /// Clean and in their seats, by the time they left.
    pub(super) aside: Queue,
    /// Changed and in their seats.
    pub(super) dirty: Queue,
    /// Seats without a chunk, whose frames hold old bytes.
    pub(super) free: Vec<u32>,
    /// Places in `seats` without a frame.
    pub(super) vacant: Vec<u32>,
    /// Frames that were given back, to be used again; and to be emptied by the caller.
    pub(super) spare_frames: Vec<Frame>,
    pub(super) discarded: Vec<Frame>,
    pub(super) next_slot: [u32; 32],
    pub(super) used: usize,
    aside_bytes: usize,
    pub(super) free_bytes: usize,
    is_moving_out: bool,
    pub(super) parked: VecDeque<ParkedFault>,
    pub(super) counts: Counts,
}

impl Shard {
    /// A shard without chunks.
    pub fn new(config: ShardConfig) -> Self {
        Self {
            config,
            seats: Vec::new(),
            links: Vec::new(),
            chunks: HashMap::default(),
            resident: Queue::default(),
            aside: Queue::default(),
            dirty: Queue::default(),
            free: Vec::new(),
            vacant: Vec::new(),
            spare_frames: Vec::new(),
            discarded: Vec::new(),
            next_slot: [0; 32],
            used: 0,
            aside_bytes: 0,
            free_bytes: 0,
            is_moving_out: false,
            parked: VecDeque::with_capacity(64),
            counts: Counts::default(),
        }
    }

    /// Makes room for the records of as many chunks of this size as fit, so that no fault allocates.
    pub fn prepare(&mut self, class: SizeClass) {
        let most = self.config.budget / class.bytes();
        self.seats.reserve(most);
        self.links.reserve(most);
        self.chunks.reserve(most);
        self.free.reserve(most);
        self.vacant.reserve(most);
        self.spare_frames.reserve(most);
        self.discarded.reserve(most);
    }

    /// What it has done.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Bytes of seats that exist. Never more than the budget.
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
    pub fn frame(&self, seat: SeatId) -> Frame {
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

    /// Whether whoever waits for a chunk wants to write it.
    pub fn is_for_writing(&self, seat: SeatId) -> bool {
        self.seat(seat.0).is_for_writing
    }

    /// A thread waits for a chunk.
    pub fn fault(&mut self, key: ChunkKey, class: SizeClass, access: Access) -> Answer {
        if let Some(&index) = self.chunks.get(&key) {
            return self.fault_on_known(index, access);
        }
        let Some(index) = self.take_seat(class) else {
            if self.oldest().is_some() {
                return Answer::MakeRoom;
            }
            self.park(key, class, access);
            return Answer::Parked;
        };
        self.counts.fetched += 1;
        self.begin_fetch(index, key, Some(access));
        Answer::Fetch(SeatId(index))
    }

    /// How many chunks are in the region.
    pub fn residents(&self) -> usize {
        self.resident.len()
    }

    fn fault_on_known(&mut self, index: u32, access: Access) -> Answer {
        let is_for_writing = access == Access::Write;
        let seat = self.seat_mut(index);
        match seat.state {
            State::Resident | State::Returned => {
                seat.is_hot = true;
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

    /// Takes a seat for a chunk that nobody waits for, unless it is known or that would cost another its place in
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
        self.seats[index as usize] = Seat {
            key,
            frame,
            state: State::Absent,
            is_hot: false,
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
    }

    /// The bytes of a chunk are in its seat. With `stay`, it is not moved in unless somebody waits for it.
    pub fn filled(&mut self, seat: SeatId, stay: bool) -> Placement {
        if self.seat(seat.0).is_awaited || !stay {
            return Placement::MoveIn;
        }
        self.go(seat.0, Event::Wait);
        self.enter_aside(seat.0);
        Placement::Stay
    }

    /// A chunk that was filled is in the region.
    pub fn arrived(&mut self, seat: SeatId) {
        self.go(seat.0, Event::Arrive);
        self.seat_mut(seat.0).is_awaited = false;
        self.resident.push_newest(&mut self.links, seat.0);
    }

    /// The bytes of a chunk cannot be had. Returns whether somebody waits for it.
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
        self.seat_mut(seat.0).is_hot = true;
        self.counts.rescued += 1;
        self.resident.push_newest(&mut self.links, seat.0);
    }

    /// Keeps a chunk in the region, or no longer. Returns whether it is there.
    pub fn pin(&mut self, key: ChunkKey, is_pinned: bool) -> bool {
        let Some(&index) = self.chunks.get(&key) else { return false };
        let seat = self.seat_mut(index);
        seat.is_pinned = is_pinned;
        matches!(seat.state, State::Resident | State::Returned)
    }

    /// Whether a chunk is to be kept in the region.
    pub fn is_pinned(&self, seat: SeatId) -> bool {
        self.seat(seat.0).is_pinned
    }

    /// Whether chunks should be moved out now, so that the next faults find seats.
    pub fn wants_room(&mut self) -> bool {
        let ready = self.config.budget - self.used + self.aside_bytes + self.free_bytes;
        if ready < self.config.low {
            self.is_moving_out = true;
        } else if ready >= self.config.high {
            self.is_moving_out = false;
        }
        self.is_moving_out
    }

    /// The chunk to be moved out next: the oldest in the region that was not rescued since it was last looked at.
    /// None if all are pinned or on their way. Say [`left`](Shard::left) or [`stuck`](Shard::stuck).
    pub fn oldest(&mut self) -> Option<SeatId> {
        // Each may be passed over once because it is hot and once because it cannot go.
        for _ in 0..2 * self.resident.len() {
            let oldest = self.resident.oldest()?;
            let seat = self.seat(oldest);
            if !seat.is_hot && !seat.is_pinned && self.may_leave(oldest) {
                return Some(SeatId(oldest));
            }
            self.seat_mut(oldest).is_hot = false;
            self.resident.remove(&mut self.links, oldest);
            self.resident.push_newest(&mut self.links, oldest);
        }
        None
    }

    /// The chunk of this key, if it is in the region and can be moved out.
    pub fn resident(&self, key: ChunkKey) -> Option<SeatId> {
        let index = *self.chunks.get(&key)?;
        (self.may_leave(index) && !self.seat(index).is_pinned).then_some(SeatId(index))
    }

    /// A chunk was moved out of the region into its seat.
    pub fn left(&mut self, seat: SeatId, is_changed: bool) {
        self.resident.remove(&mut self.links, seat.0);
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
        self.resident.remove(&mut self.links, seat.0);
        self.resident.push_newest(&mut self.links, seat.0);
    }

    /// A chunk in its seat will hardly be needed again: its seat is the next to be taken.
    pub fn demote(&mut self, key: ChunkKey) {
        let Some(&index) = self.chunks.get(&key) else { return };
        if self.seat(index).state == State::Aside {
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

    /// The bytes of a chunk on its way to the server have been read. Returns whether somebody waits for it: then move
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

    /// The server may not have a chunk. It stays here, changed in unknown places. Returns whether somebody waits for
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

    /// Drops what can be dropped of a region that is unmapped, changed or not. Returns how many chunks are still
    /// under way; when they have ended, ask again.
    pub fn forget(&mut self, region: u32) -> usize {
        self.parked.retain(|fault| fault.key.region != region);
        let mut under_way = 0;
        for index in 0..self.seats.len() as u32 {
            let seat = *self.seat(index);
            if seat.key.region != region || self.chunks.get(&seat.key) != Some(&index) {
                continue;
            }
            match seat.state {
                State::Resident => {
                    self.drop_resident(index);
                    continue;
                }
                State::Aside => self.leave_aside(index),
                State::Dirty => self.dirty.remove(&mut self.links, index),
                State::Fetching | State::Saving | State::Returned => {
                    under_way += 1;
                    continue;
                }
                State::Absent => continue,
            }
            self.go(index, Event::Evict);
            self.set_free(index);
        }
        under_way
    }

    /// Frames whose memory is to be given back to the system.
    pub fn discarded(&mut self) -> Option<Frame> {
        let frame = self.discarded.pop()?;
        self.spare_frames.push(frame);
        Some(frame)
    }

    fn enter_aside(&mut self, index: u32) {
        self.aside_bytes += self.seat(index).frame.class.bytes();
        self.aside.push_newest(&mut self.links, index);
    }

    pub(super) fn leave_aside(&mut self, index: u32) {
        self.aside_bytes -= self.seat(index).frame.class.bytes();
        self.aside.remove(&mut self.links, index);
    }

    pub(super) fn go(&mut self, index: u32, event: Event) {
        let seat = self.seat_mut(index);
        let Some(way) = edge(seat.state, event) else {
            unreachable!("{event:?} of a chunk that is {:?}", seat.state);
        };
        seat.state = TRANSITIONS[way].2;
        self.counts.edges[way] += 1;
    }

    pub(super) fn seat(&self, index: u32) -> &Seat {
        &self.seats[index as usize]
    }

    pub(super) fn seat_mut(&mut self, index: u32) -> &mut Seat {
        &mut self.seats[index as usize]
    }
}
