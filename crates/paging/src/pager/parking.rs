//! Faults that find all seats under way.

use super::chunk::{Access, ChunkKey, SizeClass};
use super::shard::{ParkedFault, Shard};

impl Shard {
    /// A fault for which there is no room, as after [`Answer::MakeRoom`](super::Answer::MakeRoom) if nothing can be moved out. It comes again by
    /// [`unpark`](Shard::unpark).
    pub fn park(&mut self, key: ChunkKey, class: SizeClass, access: Access) {
        self.counts.parked += 1;
        // Several threads may wait for the same chunk; it is asked for once.
        if !self.parked.iter().any(|parked| parked.key == key && parked.access == access) {
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
