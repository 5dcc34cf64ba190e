//! The translation cache: sets of a few places, the least recently used of a set leaves.

/// Stands in a place that was never used. No page has this number.
const NO_PAGE: u64 = u64::MAX;

/// Which translations are at hand.
#[derive(Clone, Debug)]
pub(super) struct TranslationCache {
    /// One set behind the other, each with its most recently used page first.
    places: Vec<u64>,
    sets: u64,
    ways: usize,
}

impl TranslationCache {
    pub(super) fn new(entries: usize, ways: usize) -> Self {
        let ways = ways.clamp(1, entries.max(1));
        let sets = (entries / ways).max(1);
        Self { places: vec![NO_PAGE; sets * ways], sets: sets as u64, ways }
    }

    /// Where the places begin that a page may have.
    fn start(&self, page: u64) -> usize {
        // Neighbours go to different sets, and no pattern of pages goes to one.
        let mixed = page.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((mixed ^ (mixed >> 32)) % self.sets) as usize * self.ways
    }

    fn set(&self, page: u64) -> &[u64] {
        &self.places[self.start(page)..][..self.ways]
    }

    pub(super) fn has(&self, page: u64) -> bool {
        self.set(page).contains(&page)
    }

    /// The page that would leave if this one came.
    pub(super) fn victim(&self, page: u64) -> Option<u64> {
        self.set(page).last().copied().filter(|last| *last != NO_PAGE)
    }

    /// Uses a translation, and says whether it was at hand.
    pub(super) fn use_page(&mut self, page: u64) -> bool {
        let start = self.start(page);
        // It comes first, and all before the place that it had step back.
        let mut stepping_back = page;
        for place in &mut self.places[start..][..self.ways] {
            std::mem::swap(place, &mut stepping_back);
            if stepping_back == page {
                return true;
            }
        }
        false
    }
}
