//! Making, taking and giving back seats, and the faults that find none.

use outboard_wire::mutant;

use super::chunk::{Access, ChunkKey, Frame, SizeClass};
use super::lists::Links;
use super::shard::{ParkedFault, Seat, Shard};
use super::state::{Event, State};

impl Shard {
    /// A seat of this size without a chunk: a free one, a new one while there is budget, or that of the chunk that
    /// stood aside for longest.
    pub(super) fn take_seat(&mut self, class: SizeClass) -> Option<u32> {
        if let Some(at) = self.free.iter().rposition(|index| self.seat(*index).frame.class == class) {
            self.free_bytes -= class.bytes();
            return Some(self.free.swap_remove(at));
        }
        while self.used + class.bytes() > self.config.budget {
            // Free seats of other sizes go first, then whatever stood aside for longest.
            if let Some(index) = self.free.pop() {
                self.free_bytes -= self.seat(index).frame.class.bytes();
                self.abolish(index);
                continue;
            }
            let index = self.aside.oldest()?;
            self.leave_aside(index);
            self.go(index, Event::Evict);
            self.counts.evicted += 1;
            let key = self.seat(index).key;
            self.chunks.remove(&key);
            if self.seat(index).frame.class == class {
                return Some(index);
            }
            self.abolish(index);
        }
        Some(self.found(class))
    }

    /// Makes a new seat.
    fn found(&mut self, class: SizeClass) -> u32 {
        let take = |frames: &mut Vec<Frame>| {
            let at = frames.iter().rposition(|frame| frame.class == class)?;
            Some(frames.swap_remove(at))
        };
        // One that was given back and not emptied yet will do: without it there would be more frames than fit the pool.
        let frame = match take(&mut self.spare_frames).or_else(|| take(&mut self.discarded)) {
            Some(frame) => frame,
            None => {
                let slot = self.next_slot[usize::from(class.0)];
                self.next_slot[usize::from(class.0)] += 1;
                Frame { class, slot }
            }
        };
        self.used += class.bytes();
        let seat = Seat {
            key: ChunkKey { region: u32::MAX, index: u32::MAX },
            frame,
            state: State::Absent,
            is_hot: false,
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
            return index;
        }
        self.seats.push(seat);
        self.links.push(Links::default());
        (self.seats.len() - 1) as u32
    }

    /// Gives a seat's memory back.
    fn abolish(&mut self, index: u32) {
        let frame = self.seat(index).frame;
        self.used -= frame.class.bytes();
        self.discarded.push(frame);
        self.vacant.push(index);
        self.seat_mut(index).key = ChunkKey { region: u32::MAX, index: u32::MAX };
    }

    pub(super) fn set_free(&mut self, index: u32) {
        let key = self.seat(index).key;
        self.chunks.remove(&key);
        self.free_bytes += self.seat(index).frame.class.bytes();
        self.free.push(index);
    }

    /// A fault for which there is no room, as after [`Answer::MakeRoom`](super::Answer::MakeRoom) if nothing can be moved out. It comes again by
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

    /// A fault that was parked and may find a seat now.
    pub fn unpark(&mut self) -> Option<(ChunkKey, SizeClass, Access)> {
        let ParkedFault { key, class, access } = *self.parked.front()?;
        let has_room = !self.free.is_empty()
            || self.aside.len() > 0
            || self.used + class.bytes() <= self.config.budget
            || self.chunks.contains_key(&key)
            || self.oldest().is_some();
        if !has_room {
            return None;
        }
        self.parked.pop_front();
        Some((key, class, access))
    }
}
