//! Making, taking and giving back seats, and the faults that find none.

use std::sync::Arc;

use outboard_wire::mutant;

use super::chunk::{Access, ChunkKey, SeatFrame, SizeClass};
use super::lists::Links;
use super::pool::{Pool, SEATS_MIN};
use super::shard::{ParkedFault, Seat, Shard};
use super::state::{Event, State};

/// How many seats are given back before faults have their turn.
const GIVEN_AT_ONCE: usize = 16;
/// The chunk of a seat that has none.
const NO_CHUNK: ChunkKey = ChunkKey::new(u32::MAX, u32::MAX);

impl Shard {
    /// Whether it has its share of this budget.
    pub(in super::super) fn is_of(&self, pool: &Arc<Pool>) -> bool {
        Arc::ptr_eq(&self.pool, pool)
    }

    /// A seat of this size without a chunk: a free one, a new one while there is budget, or that of the chunk that
    /// stood aside for longest.
    pub(super) fn take_seat(&mut self, class: SizeClass) -> Option<u32> {
        self.need.asked(class.bytes());
        self.give_back();
        if let Some(at) = self.free.iter().rposition(|index| self.seat(*index).frame.class == class) {
            self.free_bytes -= class.bytes();
            self.has_grown = true;
            return Some(self.free.swap_remove(at));
        }
        let mut has_evicted = false;
        loop {
            if let Some(index) = self.found(class) {
                self.has_grown = !has_evicted;
                return Some(index);
            }
            self.claim(class);
            // Free seats of other sizes go first, then whatever stood aside for longest.
            if let Some(index) = self.pop_free() {
                self.abolish(index);
                continue;
            }
            let index = self.evict()?;
            has_evicted = true;
            if self.seat(index).frame.class == class {
                self.has_grown = false;
                return Some(index);
            }
            self.abolish(index);
        }
    }

    pub(super) fn pop_free(&mut self) -> Option<u32> {
        let index = self.free.pop()?;
        self.free_bytes -= self.seat(index).frame.class.bytes();
        Some(index)
    }

    /// Takes the seat of the chunk that stood aside for longest.
    fn evict(&mut self) -> Option<u32> {
        let index = self.aside.oldest().or_else(|| self.samples.oldest())?;
        self.leave_aside(index);
        self.go(index, Event::Evict);
        self.counts.evicted += 1;
        let key = self.remove_key(index);
        self.ghosts.insert(key, self.seat(index).since);
        Some(index)
    }

    /// Asks others for what they have of this shard's share.
    fn claim(&mut self, class: SizeClass) {
        let is_ours = self.used + self.claimed + class.bytes() <= self.share();
        if is_ours && self.claimed < SEATS_MIN * class.bytes() {
            self.claimed += class.bytes();
            self.pool.claim(class.bytes());
        }
    }

    /// Whether others want what this shard has beyond its share, or cannot go on without a part of that; or whether the budget
    /// has shrunk, and its share with it.
    fn owes(&self) -> bool {
        self.pool.wanted() > 0
            && !mutant("paging.nothing-given-back")
            && (self.used > self.share()
                || self.pool.has_starving() && self.used > SEATS_MIN * self.need.grain())
    }

    /// Gives a few seats back that others want, as far as they can be taken at once. Returns whether there were any.
    pub fn give_back(&mut self) -> bool {
        let mut gave = 0;
        // Faults wait meanwhile.
        while gave < GIVEN_AT_ONCE
            && self.owes()
            && let Some(index) = self.pop_free().or_else(|| self.evict())
        {
            self.abolish(index);
            gave += 1;
        }
        gave > 0
    }

    /// Whether it has too much since the budget has shrunk, and no chunk is on its way to a server, which would let it go on.
    pub fn cannot_shrink(&self) -> bool {
        self.pool.is_over() && self.saving == 0 && self.owes()
    }

    /// Makes a new seat, if there is budget.
    fn found(&mut self, class: SizeClass) -> Option<u32> {
        let is_beyond_share = self.used + class.bytes() > self.share();
        if self.used + class.bytes() > self.most || !self.pool.take(class.bytes(), is_beyond_share) {
            return None;
        }
        let answered = self.claimed.min(class.bytes());
        self.claimed -= answered;
        self.pool.unclaim(answered);
        let take = |frames: &mut Vec<SeatFrame>| {
            let at = frames.iter().rposition(|frame| frame.class == class)?;
            Some(frames.swap_remove(at))
        };
        // One that was given back and not emptied yet will do: without it there would be more frames than fit the pool.
        let frame = match take(&mut self.spare_frames).or_else(|| take(&mut self.discarded)) {
            Some(frame) => frame,
            None => {
                let slot = self.next_slot[usize::from(class.0)];
                self.next_slot[usize::from(class.0)] += 1;
                SeatFrame { class, slot }
            }
        };
        self.used += class.bytes();
        let seat = Seat {
            key: NO_CHUNK,
            frame,
            state: State::Absent,
            is_kept: false,
            is_sample: false,
            since: 0,
            is_pinned: false,
            holds: 0,
            is_changed: false,
            has_baseline: false,
            is_awaited: false,
            is_for_writing: false,
            is_sending: false,
            debt: Default::default(),
        };
        if let Some(index) = self.vacant.pop() {
            self.seats[index as usize] = seat;
            return Some(index);
        }
        self.seats.push(seat);
        self.links.push(Links::default());
        Some((self.seats.len() - 1) as u32)
    }

    /// Gives a seat's memory back.
    pub(super) fn abolish(&mut self, index: u32) {
        let frame = self.seat(index).frame;
        self.used -= frame.class.bytes();
        self.pool.give_back(frame.class.bytes());
        self.discarded.push(frame);
        self.vacant.push(index);
        self.seat_mut(index).key = NO_CHUNK;
    }

    pub(super) fn set_free(&mut self, index: u32) {
        self.remove_key(index);
        self.free_bytes += self.seat(index).frame.class.bytes();
        self.free.push(index);
    }

    /// A fault for which there is no room, as after [`ClientAnswer::MakeRoom`](super::Answer::MakeRoom) if nothing can be moved out. It comes again by
    /// [`unpark`](Shard::unpark).
    pub fn park(&mut self, key: ChunkKey, class: SizeClass, access: Access) {
        self.counts.parked += 1;
        // Several threads may wait for the same chunk; it is asked for once.
        let is_new = !self.parked.iter().any(|parked| parked.key == key && parked.access == access);
        if is_new && !mutant("paging.parked-fault-forgotten") {
            self.parked.push_back(ParkedFault { key, class, access });
        }
    }

    /// How many faults are parked.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Takes a parked fault that will never find what it waits for.
    pub fn give_up_parked(&mut self, is_hopeless: impl Fn(ChunkKey) -> bool) -> Option<ChunkKey> {
        let at = self.parked.iter().position(|fault| is_hopeless(fault.key))?;
        self.parked.remove(at).map(|fault| fault.key)
    }

    pub(super) fn can_grow(&self, class: SizeClass) -> bool {
        let is_beyond_share = self.used + class.bytes() > self.share();
        let free = if is_beyond_share { self.pool.spare() } else { self.pool.free() };
        self.used + class.bytes() <= self.most && class.bytes() <= free
    }

    /// Whether a chunk may be moved out for another. A shard that has few because others have its share gets that first: an
    /// instruction that needs several chunks would never have them all.
    pub(super) fn may_make_room(&self, class: SizeClass) -> bool {
        let is_poor = self.used < SEATS_MIN * class.bytes() && self.used + class.bytes() <= self.share();
        !is_poor || self.claimed == 0
    }

    /// Whether seats are wanted that are not ready.
    pub(super) fn wants_seats(&mut self) -> bool {
        if self.owes() && self.residents() > 0 && self.unsaved_bytes < self.pool.wanted() {
            return true;
        }
        let growth = if self.used < self.share() { self.pool.free() } else { self.pool.spare() };
        let growth = growth.min(self.most - self.used);
        // Changed chunks are ready when they are saved.
        let ready = growth + self.aside_bytes + self.free_bytes + self.unsaved_bytes;
        self.need.wants(ready, self.share())
    }

    /// Says whether threads wait here for what others have.
    pub fn settle(&mut self) {
        // It may have asked for more than its share since that has shrunk.
        let excess = (self.used + self.claimed).saturating_sub(self.share()).min(self.claimed);
        if excess > 0 {
            self.claimed -= excess;
            self.pool.unclaim(excess);
        }
        let is_starving = self.claimed > 0 && !self.parked.is_empty();
        if is_starving != self.is_starving {
            self.is_starving = is_starving;
            self.pool.starve(is_starving);
        }
    }

    /// A fault that was parked and may find a seat now.
    pub fn unpark(&mut self) -> Option<(ChunkKey, SizeClass, Access)> {
        let ParkedFault { key, class, access } = *self.parked.front()?;
        // One that waits for a chunk to be saved need not have another moved out.
        let may_make_room = self.parked.len() > self.saving && self.may_make_room(class);
        let has_room = !self.free.is_empty()
            || self.aside.len() + self.samples.len() > 0
            || self.can_grow(class)
            || self.chunks.contains_key(&key)
            || may_make_room && self.oldest().is_some();
        if !has_room {
            return None;
        }
        self.parked.pop_front();
        Some((key, class, access))
    }
}
