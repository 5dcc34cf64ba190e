//! In what grain the bytes of a range come: chunk by chunk, or page by page. Learnt from faults, while they come.
//!
//! Whether the neighbours of a page are used cannot be seen once they have come with it: userfaultfd shows the first touch of what
//! is absent, and nothing else. So each range of a region remembers where its last fault was. Faults beside each other, and faults
//! that a stream expects, speak for chunks; faults here and there speak for pages. Where pages come one by one it is seen whether
//! their neighbours are wanted too, which counts for more than where chunks are.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use outboard_wire::mutant;
use zerocopy::FromZeros;

/// How many chunks a range has.
pub(super) const RANGE: u32 = 32;

/// The evidence for chunks of a fault beside the last one, and of a fault elsewhere. Two in three faults have to be
/// elsewhere: a fault costs more than the bytes of a few pages.
const NEAR: i32 = 2;
const FAR: i32 = -1;
/// Between these the evidence of a range stays as long as chunks come, and where it begins when pages were found to be used
/// together.
const LEAST: i32 = -8;
const MOST: i32 = 8;
const FOUND: i32 = 32;
/// As much evidence of the whole region decides for ranges without any.
const OVERALL: i32 = 16;

/// The bytes that come when a thread touches an absent page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// A chunk.
    Chunk,
    /// A page.
    Page,
}

/// The evidence of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Learnt {
    /// For chunks; for pages if it is negative.
    evidence: i32,
    /// Which of its pages a thread waited for last, if any did.
    last: Option<u32>,
}

impl Learnt {
    fn encode(self) -> u32 {
        (self.evidence as u32 & 0xff) | self.last.map_or(0, |page| page + 1) << 8
    }

    fn decode(bits: u32) -> Self {
        Self { evidence: (bits as u8 as i8).into(), last: (bits >> 8).checked_sub(1) }
    }
}

/// The evidence of each range of a region.
#[derive(Debug)]
pub(super) struct Grains {
    ranges: Box<[AtomicU32]>,
    /// Evidence of all ranges together.
    overall: AtomicI32,
    /// How many pages a chunk has.
    pages: u32,
}

impl Grains {
    /// For so many chunks of so many pages each. Nothing is learnt of chunks of one page.
    pub(super) fn new(chunks: u32, pages: u16) -> Self {
        let ranges = if pages > 1 { chunks.div_ceil(RANGE) } else { 0 };
        // The system has no memory for those that are never used.
        let ranges = <[AtomicU32]>::new_box_zeroed_with_elems(ranges as usize);
        let ranges = ranges.expect("there is memory for four bytes for each range");
        Self { ranges, overall: AtomicI32::new(0), pages: pages.into() }
    }

    /// In what grain a chunk's bytes come.
    pub(super) fn of(&self, chunk: u32) -> Grain {
        let Some(range) = self.ranges.get((chunk / RANGE) as usize) else { return Grain::Chunk };
        let learnt = Learnt::decode(range.load(Ordering::Relaxed));
        let is_known = learnt.last.is_some();
        if (if is_known { learnt.evidence } else { self.prior() }) < 0 { Grain::Page } else { Grain::Chunk }
    }

    /// Evidence where there is none yet.
    fn prior(&self) -> i32 {
        if self.overall.load(Ordering::Relaxed) <= -OVERALL { FAR } else { 0 }
    }

    /// A thread waited for a page of a chunk. It `is_expected` by a stream, or was not; and chunks beside it were wanted lately,
    /// or were not.
    pub(super) fn learn(&self, (chunk, page): (u32, u16), is_expected: bool, is_beside: bool) {
        let Some(range) = self.ranges.get((chunk / RANGE) as usize) else { return };
        let page = chunk % RANGE * self.pages + u32::from(page);
        let Learnt { evidence, last } = Learnt::decode(range.load(Ordering::Relaxed));
        if last == Some(page) {
            return;
        }
        let before = if last.is_some() { evidence } else { self.prior() };
        let is_near = |last: u32| (last / self.pages).abs_diff(page / self.pages) <= 1;
        let is_near = last.map_or(is_beside, is_near);
        let step = if is_near || is_expected { NEAR } else { FAR };
        let evidence = match before + step {
            _ if is_expected => before.max(MOST),
            // Nothing speaks against the first fault of a range.
            _ if last.is_none() && !is_near => before,
            after if before < 0 && after >= 0 && !mutant("paging.grain-forgotten") => FOUND,
            after => after.clamp(LEAST, before.max(MOST)),
        };
        range.store(Learnt { evidence, last: Some(page) }.encode(), Ordering::Relaxed);
        let overall =
            self.overall.load(Ordering::Relaxed) + if is_beside || is_expected { NEAR } else { FAR };
        self.overall.store(overall.clamp(-4 * OVERALL, 4 * OVERALL), Ordering::Relaxed);
    }

    /// In how many ranges pages come one by one, of how many in which anything was touched.
    pub(super) fn count(&self) -> (usize, usize) {
        let learnt = self.ranges.iter().map(|range| Learnt::decode(range.load(Ordering::Relaxed)));
        let known = learnt.filter(|learnt| learnt.last.is_some());
        known.fold((0, 0), |(pages, all), learnt| (pages + usize::from(learnt.evidence < 0), all + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKS: u32 = 4096;
    const PAGES: u16 = 16;

    /// Faults of threads without order. Returns how many of them would have brought a chunk.
    fn roam(grains: &Grains, random: &mut fastrand::Rng, chunks: std::ops::Range<u32>, faults: u32) -> u32 {
        let mut whole = 0;
        for _ in 0..faults {
            let (chunk, page) = (random.u32(chunks.clone()), random.u16(..PAGES));
            whole += u32::from(grains.of(chunk) == Grain::Chunk);
            grains.learn((chunk, page), false, false);
        }
        whole
    }

    /// A pass over chunks. Returns how many faults it took.
    fn pass(grains: &Grains, chunks: std::ops::Range<u32>) -> u32 {
        let mut faults = 0;
        for chunk in chunks {
            let grain = grains.of(chunk);
            let pages = if grain == Grain::Chunk { 0..1 } else { 0..PAGES };
            for page in pages {
                faults += 1;
                grains.learn((chunk, page), false, true);
                if grains.of(chunk) == Grain::Chunk {
                    break;
                }
            }
        }
        faults
    }

    #[test]
    fn what_was_learnt_comes_back_as_it_was() {
        for evidence in [LEAST, -1, 0, 5, FOUND] {
            for last in [None, Some(0), Some(RANGE * 512 - 1)] {
                let learnt = Learnt { evidence, last };
                assert_eq!(Learnt::decode(learnt.encode()), learnt);
            }
        }
        assert_eq!(Learnt::decode(0), Learnt::default());
    }

    #[test]
    fn pages_come_where_touches_have_no_order_and_chunks_where_they_have() {
        let (grains, mut random) = (Grains::new(CHUNKS, PAGES), fastrand::Rng::with_seed(3));
        assert_eq!((grains.of(0), grains.count()), (Grain::Chunk, (0, 0)));
        roam(&grains, &mut random, 0..CHUNKS / 2, 2000);
        let whole = roam(&grains, &mut random, 0..CHUNKS / 2, 20_000);
        assert!(whole < 400, "{whole} of 20000 touches would have brought a chunk");
        // Half of the ranges are gone through while the others are roamed.
        for _ in 0..4 {
            assert!(pass(&grains, CHUNKS / 2..CHUNKS) < CHUNKS / 2 + CHUNKS / 8);
            assert!(roam(&grains, &mut random, 0..CHUNKS / 2, 2000) < 40);
        }
        let (pages, all) = grains.count();
        assert!(all == (CHUNKS / RANGE) as usize && pages.abs_diff(all / 2) < 4, "{pages} of {all}");
    }

    #[test]
    fn a_region_that_is_roamed_is_fetched_by_pages_where_nothing_was_touched_yet() {
        let (grains, mut random) = (Grains::new(1 << 24, PAGES), fastrand::Rng::with_seed(4));
        roam(&grains, &mut random, 0..1 << 24, 100);
        assert_eq!(roam(&grains, &mut random, 0..1 << 24, 10_000), 0);
    }

    #[test]
    fn passes_bring_chunks_again_after_a_few_faults_of_each_range() {
        let (grains, mut random) = (Grains::new(CHUNKS, PAGES), fastrand::Rng::with_seed(5));
        roam(&grains, &mut random, 0..CHUNKS, 20_000);
        let faults = pass(&grains, 0..CHUNKS);
        assert!(faults < CHUNKS + CHUNKS / RANGE * 8, "{faults} faults for {CHUNKS} chunks");
        assert_eq!(pass(&grains, 0..CHUNKS), CHUNKS);
    }

    /// Records as long as a chunk, here and there.
    #[test]
    fn chunks_that_are_used_as_a_whole_come_as_a_whole_without_an_order_too() {
        let (grains, mut random) = (Grains::new(CHUNKS, PAGES), fastrand::Rng::with_seed(6));
        let mut record = |_| {
            let chunk = random.u32(..CHUNKS);
            let mut faults = 0;
            for page in 0..PAGES {
                faults += 1;
                let grain = grains.of(chunk);
                grains.learn((chunk, page), false, false);
                if grain == Grain::Chunk {
                    break;
                }
            }
            faults
        };
        (0..20_000).for_each(|number| _ = record(number));
        let faults = (0..20_000).map(record).sum::<u32>();
        assert!(faults < 26_000, "{faults} faults for 20000 records");
    }

    #[test]
    fn what_a_stream_expects_comes_as_chunks_however_many_threads_take_turns() {
        let grains = Grains::new(CHUNKS, PAGES);
        roam(&grains, &mut fastrand::Rng::with_seed(7), 0..RANGE, 100);
        assert_eq!(grains.of(3), Grain::Page);
        grains.learn((3, 0), true, false);
        assert_eq!(grains.of(3), Grain::Chunk);
        // Of chunks that are a page nothing has to be learnt.
        let grains = Grains::new(CHUNKS, 1);
        assert_eq!(roam(&grains, &mut fastrand::Rng::with_seed(8), 0..CHUNKS, 1000), 1000);
    }
}
