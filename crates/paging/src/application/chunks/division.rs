//! Chunks that are divided into their pages, each of which comes, stays and leaves by itself.
//!
//! A page of a divided chunk has a seat of its own, of the size of a page, and is in all else what a chunk is. As long as one of
//! its pages has a seat the chunk is divided, and has none as a whole; while it has one as a whole none of its pages has.

use outboard_wire::mutant;

use super::chunk::ChunkKey;
use super::shard::Shard;
use super::state::{Event, State};

impl Shard {
    /// Whether a chunk, or a page of a divided one, has a seat.
    pub fn has(&self, key: ChunkKey) -> bool {
        self.chunks.contains_key(&key)
    }

    /// Whether pages of divided chunks have seats.
    pub fn has_divided(&self) -> bool {
        self.pages > 0
    }

    /// Whether a chunk of so many pages is divided.
    pub fn is_divided(&self, whole: ChunkKey, pages: u16) -> bool {
        self.has_divided()
            && (0..pages).any(|page| self.has(whole.of_page(page)))
            && !mutant("paging.whole-beside-its-pages")
    }

    /// Whether a seat for a chunk, or for a page of it, would be a second place of the bytes that others have: the chunk has come
    /// as a whole, or has been divided.
    pub fn clashes(&self, key: ChunkKey, pages: u16) -> bool {
        match key.page {
            Some(_) => self.has(key.whole()),
            None => self.is_divided(key, pages),
        }
    }

    /// The first page of a chunk at or after `from` that is absent.
    pub fn absent_page(&self, whole: ChunkKey, pages: std::ops::Range<u16>) -> Option<u16> {
        pages.into_iter().find(|page| self.state(whole.of_page(*page)) == State::Absent)
    }

    /// Whether a page of a divided chunk can be made absent once it is out of the region, if it has not been changed.
    pub fn can_be_gathered(&self, key: ChunkKey) -> bool {
        let Some(&index) = self.chunks.get(&key) else { return true };
        let is_free = !self.seat(index).is_pinned && self.seat(index).holds == 0;
        is_free && matches!(self.seat(index).state, State::Resident | State::Aside)
    }

    /// Takes the seat of a page that is the same at the server, so that it can come with its chunk.
    pub fn gather(&mut self, key: ChunkKey) {
        if let Some(&index) = self.chunks.get(&key)
            && self.seat(index).state == State::Aside
        {
            self.leave_aside(index);
            self.go(index, Event::Evict);
            self.set_free(index);
        }
    }

    /// A chunk, or a page of a divided one, has its seat no longer.
    pub(super) fn remove_key(&mut self, index: u32) -> ChunkKey {
        let key = self.seat(index).key;
        self.chunks.remove(&key);
        self.pages -= usize::from(key.page.is_some());
        key
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, Answer, ArrivalStep, SizeClass};
    use super::*;

    const CHUNK: SizeClass = SizeClass(14);
    const PAGE: SizeClass = SizeClass(12);
    const PAGES: u16 = 4;

    fn bring(shard: &mut Shard, key: ChunkKey) {
        let class = if key.page.is_some() { PAGE } else { CHUNK };
        loop {
            match shard.fault(key, class, Access::Read) {
                Answer::Fetch(seat) => {
                    assert_eq!(shard.filled(seat, false), ArrivalStep::MoveIn);
                    return shard.arrived(seat);
                }
                Answer::MakeRoom => {
                    let oldest = shard.oldest().expect("something can be moved out");
                    shard.left(oldest, false);
                }
                answer => panic!("{answer:?}"),
            }
        }
    }

    #[test]
    fn a_chunk_is_divided_as_long_as_one_of_its_pages_has_a_seat() {
        let (mut shard, chunk) = (Shard::new(CHUNK.bytes()), ChunkKey::new(0, 7));
        assert!(!shard.is_divided(chunk, PAGES) && !shard.has_divided());
        bring(&mut shard, chunk.of_page(2));
        assert!(shard.is_divided(chunk, PAGES) && shard.clashes(chunk, PAGES));
        assert!(!shard.is_divided(ChunkKey::new(0, 8), PAGES) && !shard.clashes(chunk.of_page(1), PAGES));
        assert_eq!(shard.absent_page(chunk, 0..PAGES), Some(0));
        assert_eq!(shard.absent_page(chunk, 2..PAGES), Some(3));
        // Another chunk takes the place of all pages that are here.
        [0, 1, 3].into_iter().for_each(|page| bring(&mut shard, chunk.of_page(page)));
        assert_eq!((shard.absent_page(chunk, 0..PAGES), shard.used()), (None, CHUNK.bytes()));
        bring(&mut shard, ChunkKey::new(1, 7));
        assert!(!shard.is_divided(chunk, PAGES) && !shard.has_divided());
        assert!(shard.clashes(ChunkKey::new(1, 7).of_page(0), PAGES));
        assert_eq!(shard.used(), CHUNK.bytes());
        assert_eq!(shard.counts().pages, 4);
    }

    #[test]
    fn pages_make_room_for_their_chunk_if_they_are_not_changed() {
        let (mut shard, chunk) = (Shard::new(4 * CHUNK.bytes()), ChunkKey::new(0, 7));
        let keys = || (0..PAGES).map(|page| chunk.of_page(page));
        keys().skip(1).for_each(|key| bring(&mut shard, key));
        let last = chunk.of_page(3);
        assert!(keys().all(|key| shard.can_be_gathered(key)));
        shard.pin(last, true);
        assert!(!shard.can_be_gathered(last));
        shard.pin(last, false);
        for key in keys() {
            let Some(seat) = shard.resident(key) else { continue };
            shard.left(seat, key == last);
            shard.gather(key);
        }
        assert_eq!((shard.state(last), shard.can_be_gathered(last)), (State::Dirty, false));
        assert!(keys().filter(|key| *key != last).all(|key| shard.state(key) == State::Absent));
        assert!(shard.is_divided(chunk, PAGES));
        let Some(seat) = shard.save_next(|_| true) else { panic!("it is changed") };
        assert!(!shard.sent(seat) && !shard.can_be_gathered(last));
        shard.saved(seat);
        shard.gather(last);
        assert!(!shard.is_divided(chunk, PAGES));
        bring(&mut shard, chunk);
    }

    #[test]
    fn a_region_that_goes_takes_its_pages_along() {
        let mut shard = Shard::new(2 * CHUNK.bytes());
        (0..PAGES).for_each(|page| bring(&mut shard, ChunkKey::new(0, 7).of_page(page)));
        bring(&mut shard, ChunkKey::new(1, 0));
        assert_eq!((shard.forget(0), shard.has_divided()), (0, false));
        assert!(shard.has(ChunkKey::new(1, 0)));
        assert_eq!(shard.used(), CHUNK.bytes());
    }
}
