//! Chunks that have gone lately, without their bytes: a chunk that comes back while it is remembered was missed.
//!
//! A ring of names with chains by their hashes, all of a size that is fixed when it is made.

use std::hash::Hash;
use std::hash::Hasher;

use super::chunk::{ChunkKey, KeyHasher};

/// The end of a chain. It is zero, and places count from one, so that chains take memory only where they are used.
const NONE: u32 = 0;

#[derive(Clone, Copy, Debug)]
struct Ghost {
    /// None once it has come back.
    key: Option<ChunkKey>,
    /// When it was touched, as far as that was seen.
    since: u64,
    next: u32,
}

/// The names of the chunks that have gone last.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    ring: Vec<Ghost>,
    /// Where the next name goes.
    at: usize,
    /// How many have not come back.
    len: usize,
    /// The beginnings of chains, as many as a power of two.
    chains: Vec<u32>,
    /// How many names the ring may hold.
    most: usize,
}

impl Ghosts {
    /// Room for so many names. What was remembered is forgotten if that is more than before.
    pub(super) fn prepare(&mut self, most: usize) {
        if most > self.most {
            let chains = vec![NONE; most.next_power_of_two()];
            *self = Self { ring: Vec::with_capacity(most), at: 0, len: 0, chains, most };
        }
    }

    fn chain(&self, key: ChunkKey) -> usize {
        let mut hasher = KeyHasher::default();
        key.hash(&mut hasher);
        (hasher.finish() >> 32) as usize & (self.chains.len() - 1)
    }

    /// A chunk has gone that was last seen to be touched at this time.
    pub(super) fn insert(&mut self, key: ChunkKey, since: u64) {
        if self.most == 0 {
            return;
        }
        let at = self.at;
        self.at = (at + 1) % self.most;
        if let Some(oldest) = self.ring.get(at).and_then(|ghost| ghost.key) {
            self.remove(oldest);
        }
        let chain = self.chain(key);
        let ghost = Ghost { key: Some(key), since, next: self.chains[chain] };
        match self.ring.get_mut(at) {
            Some(place) => *place = ghost,
            None => self.ring.push(ghost),
        }
        self.chains[chain] = at as u32 + 1;
        self.len += 1;
    }

    /// A chunk is back. Returns when it was last seen to be touched, if it is remembered.
    pub(super) fn remove(&mut self, key: ChunkKey) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let chain = self.chain(key);
        let (mut before, mut at) = (NONE, self.chains[chain]);
        while at != NONE {
            let place = at as usize - 1;
            let Ghost { key: found, since, next } = self.ring[place];
            if found == Some(key) {
                match before {
                    NONE => self.chains[chain] = next,
                    before => self.ring[before as usize - 1].next = next,
                }
                self.ring[place] = Ghost { key: None, since, next: NONE };
                self.len -= 1;
                return Some(since);
            }
            (before, at) = (at, next);
        }
        None
    }

    /// Chunks of a region will not come back.
    pub(super) fn forget(&mut self, region: u32) {
        for at in 0..self.ring.len() {
            if let Some(key) = self.ring[at].key.filter(|key| key.region == region) {
                self.remove(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn the_latest_names_are_remembered_until_they_come_back() {
        let mut ghosts = Ghosts::default();
        ghosts.insert(ChunkKey::new(0, 0), 0);
        assert_eq!(ghosts.len, 0, "there is room for none");
        ghosts.prepare(50);
        let mut random = fastrand::Rng::with_seed(3);
        let mut model: VecDeque<Option<(ChunkKey, u64)>> = VecDeque::new();
        for time in 0..20_000 {
            let key = ChunkKey::new(random.u32(..2), random.u32(..100));
            let known = model.iter().position(|other| other.is_some_and(|(other, _)| other == key));
            assert_eq!(ghosts.remove(key), known.and_then(|at| model[at]).map(|(_, since)| since));
            if let Some(at) = known {
                model[at] = None;
            }
            if random.bool() {
                ghosts.insert(key, time);
                model.push_back(Some((key, time)));
                if model.len() > 50 {
                    model.pop_front();
                }
            }
            assert_eq!(ghosts.len, model.iter().flatten().count());
        }
        ghosts.forget(0);
        model.retain(|ghost| ghost.is_some_and(|(key, _)| key.region == 1));
        assert_eq!(ghosts.len, model.len());
        assert!(model.iter().flatten().all(|(key, since)| ghosts.remove(*key) == Some(*since)));
    }
}
