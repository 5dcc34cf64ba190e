//! Which bytes a write touches, and a quick test whether two may meet.

/// Bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSpan {
    /// The region, by the slot under which it was presented.
    pub slot: u32,
    /// Where the bytes begin.
    pub offset: u64,
    /// How many there are.
    pub len: u64,
}

impl WriteSpan {
    /// Where the bytes end. Spans that end beyond all numbers end at the last.
    #[inline]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Whether they have a byte in common.
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.slot == other.slot && self.offset < other.end() && other.offset < self.end()
    }

    /// The pages of 4 KiB that it touches, first and last.
    #[inline]
    fn pages(&self) -> (u64, u64) {
        (self.offset >> PAGE_LOG2, self.end().saturating_sub(1).max(self.offset) >> PAGE_LOG2)
    }
}

/// The grain in which writes are told apart, as a power of two: the page of most processors.
pub(crate) const PAGE_LOG2: u32 = 12;

/// A number for a page that looks like chance, the same for the same page.
#[inline]
pub(crate) fn page_hash(slot: u32, page: u64) -> u64 {
    let mixed = (page ^ (u64::from(slot) << 44)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 32)
}

const COUNTERS: usize = 1024;
/// A span of more pages is not counted page by page.
const PAGES_MAX: u64 = 4;

/// Counts the pages that a set of spans touches, so that most writes need not be compared with each of them.
#[derive(Clone, Debug)]
pub(crate) struct PageCounts {
    counters: Box<[u16; COUNTERS]>,
    /// Spans of many pages.
    wide: u32,
    spans: u32,
}

impl PageCounts {
    pub(crate) fn new() -> Self {
        Self { counters: Box::new([0; COUNTERS]), wide: 0, spans: 0 }
    }

    #[inline]
    fn each(span: &WriteSpan, mut visit: impl FnMut(usize)) -> bool {
        let (first, last) = span.pages();
        if last - first >= PAGES_MAX {
            return false;
        }
        for page in first..=last {
            visit((page_hash(span.slot, page) >> 54) as usize);
        }
        true
    }

    #[inline]
    pub(crate) fn add(&mut self, span: &WriteSpan) {
        self.spans += 1;
        let counters = &mut self.counters;
        if !Self::each(span, |at| counters[at] += 1) {
            self.wide += 1;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, span: &WriteSpan) {
        self.spans -= 1;
        let counters = &mut self.counters;
        if !Self::each(span, |at| counters[at] -= 1) {
            self.wide -= 1;
        }
    }

    /// Whether a span of the set may have bytes in common with this one. A no is certain.
    #[inline]
    pub(crate) fn may_meet(&self, span: &WriteSpan) -> bool {
        if self.spans == 0 {
            return false;
        }
        let mut met = self.wide > 0;
        let counters = &self.counters;
        !Self::each(span, |at| met |= counters[at] > 0) || met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: u64, len: u64) -> WriteSpan {
        WriteSpan { slot: 1, offset, len }
    }

    #[test]
    fn spans_meet_where_they_have_a_byte_in_common() {
        assert!(span(0, 8).overlaps(&span(7, 1)));
        assert!(!span(0, 8).overlaps(&span(8, 8)));
        assert!(!span(0, 8).overlaps(&WriteSpan { slot: 2, ..span(0, 8) }));
        assert!(span(u64::MAX - 1, 8).overlaps(&span(u64::MAX - 1, 1)));
    }

    #[test]
    fn a_no_is_certain() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut held: Vec<WriteSpan> = Vec::new();
        let mut counts = PageCounts::new();
        let draw = |random: &mut fastrand::Rng| {
            let len = if random.u8(..) < 20 { random.u64(0..100_000) } else { random.u64(0..200) };
            WriteSpan { slot: random.u32(0..3), offset: random.u64(0..1 << 20), len }
        };
        let mut noes = 0;
        for _ in 0..20_000 {
            let asked = draw(&mut random);
            let meets = held.iter().any(|other| other.overlaps(&asked));
            assert!(!meets || counts.may_meet(&asked));
            noes += u32::from(!counts.may_meet(&asked));
            if held.len() > 20 {
                counts.remove(&held.swap_remove(random.usize(..held.len())));
            }
            counts.add(&asked);
            held.push(asked);
        }
        held.iter().for_each(|span| counts.remove(span));
        assert!(!counts.may_meet(&span(0, 1 << 20)));
        assert!(noes > 1000, "{noes}");
    }
}
