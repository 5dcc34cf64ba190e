//! Which pages of a segment have memory, for those who must not take more.

use outboard_limits::growth;

use super::Segment;

/// Pages that are looked at in one call; the largest access over a link has fewer.
const LOOK: usize = 128;

impl Segment {
    /// Whether these bytes may be written: their pages have memory, or this process may take more. It is the one that pays for
    /// pages that it touches first.
    pub fn may_be_written(&self, offset: usize, len: usize) -> bool {
        // The kernel can take back pages of a file, but not find room for them on a full file system.
        if let Some(has_room) = self.take_file_room(offset, len) {
            return has_room;
        }
        let page = rustix::param::page_size();
        // The page in which they begin may be another than the one in which they end.
        growth().take((len + page) as u64) || self.has_pages(offset, len)
    }

    /// Whether all pages of these bytes have memory.
    fn has_pages(&self, offset: usize, len: usize) -> bool {
        let page = rustix::param::page_size();
        let (first, end) = (offset / page, (offset + len).min(self.len()).div_ceil(page));
        let has_all = |from: usize| {
            let (mut pages, count) = ([0_u8; LOOK], LOOK.min(end - from));
            // SAFETY: pages of the mapping, which lasts as long as `self`; it only looks, and writes a byte for each page.
            let looked = unsafe {
                libc::mincore(self.start().as_ptr().add(from * page).cast(), count * page, pages.as_mut_ptr())
            };
            looked == 0 && pages[..count].iter().all(|page| page & 1 == 1)
        };
        (first..end).step_by(LOOK).all(has_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_memory_once_they_were_written() {
        let page = rustix::param::page_size();
        let segment = Segment::create(c"presence", 300 * page).unwrap();
        assert!(!segment.has_pages(0, 1) && segment.has_pages(0, 0));
        segment.window_mut(page - 4, 8).write(0, &[1; 8]);
        assert!(segment.has_pages(0, 2 * page) && !segment.has_pages(1, 2 * page));
        for number in 0..300 {
            assert!(number < 2 || !segment.has_pages(0, 300 * page));
            segment.window_mut(number * page, 1).write(0, &[1]);
        }
        assert!(segment.has_pages(0, 300 * page));
        // No limit is kept here.
        assert!(segment.may_be_written(0, 300 * page));
    }
}
