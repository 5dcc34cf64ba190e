//! The translation cache: sets of a few places, the least recently used of a set leaves.

/// Which translations are at hand.
#[derive(Clone, Debug)]
pub(super) struct TranslationCache {
    /// For each set its pages, most recently used first.
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl TranslationCache {
    pub(super) fn new(entries: usize, ways: usize) -> Self {
        let ways = ways.clamp(1, entries.max(1));
        let sets = (entries / ways).max(1);
        Self { sets: vec![Vec::with_capacity(ways); sets], ways }
    }

    fn set(&self, page: u64) -> usize {
        // Neighbours go to different sets, and no pattern of pages goes to one.
        let mixed = page.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((mixed ^ (mixed >> 32)) % self.sets.len() as u64) as usize
    }

    pub(super) fn has(&self, page: u64) -> bool {
        self.sets[self.set(page)].contains(&page)
    }

    /// The page that would leave if this one came.
    pub(super) fn victim(&self, page: u64) -> Option<u64> {
        let set = &self.sets[self.set(page)];
        set.last().copied().filter(|_| set.len() == self.ways)
    }

    /// Uses a translation, and says whether it was at hand.
    pub(super) fn use_page(&mut self, page: u64) -> bool {
        let (at, ways) = (self.set(page), self.ways);
        let set = &mut self.sets[at];
        let found = set.iter().position(|held| *held == page);
        match found {
            Some(place) => set[..=place].rotate_right(1),
            None => {
                set.truncate(ways - 1);
                set.insert(0, page);
            }
        }
        found.is_some()
    }
}
