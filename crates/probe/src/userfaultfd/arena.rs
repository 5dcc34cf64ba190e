//! A few pages of our own to try things on.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Private memory that nothing else points into, set up as a pager sets up its own: no huge pages, and not
/// inherited by a forked child.
///
/// Only `&mut self` touches its bytes. A registration borrows the arena for as long as faults on it would wait
/// for a handler, so that no thread can ever wait for one here.
pub(super) struct Arena {
    start: NonNull<u8>,
    page_size: usize,
    pages: usize,
}

impl Arena {
    /// Maps `pages` pages that hold nothing yet.
    pub(super) fn new(pages: usize) -> Result<Self, Errno> {
        let page_size = rustix::param::page_size();
        let len = pages * page_size;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice replaces no other.
        let start =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE)? };
        let arena = Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, page_size, pages };
        for advice in [Advice::LinuxDontFork, Advice::LinuxNoHugepage] {
            // SAFETY: the mapping made above, which holds nothing; neither advice discards anything.
            match unsafe { rustix::mm::madvise(start, len, advice) } {
                // A kernel built without huge pages does not know the advice against them.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(arena)
    }

    /// Where a page begins.
    pub(super) fn address(&self, page: usize) -> usize {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        self.start.as_ptr() as usize + page * self.page_size
    }

    /// How long one page is.
    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    /// How long all pages are.
    pub(super) fn len(&self) -> usize {
        self.pages * self.page_size
    }

    /// Fills a page with `byte`.
    pub(super) fn fill(&mut self, page: usize, byte: u8) {
        let at = self.page(page);
        // SAFETY: the page lies in the mapping, and no reference into it exists.
        unsafe { at.write_bytes(byte, self.page_size) }
    }

    /// Whether a page holds nothing but `byte`.
    pub(super) fn holds(&mut self, page: usize, byte: u8) -> bool {
        let at = self.page(page);
        // SAFETY: the page lies in the mapping; reading it byte by byte makes no reference into it.
        (0..self.page_size).all(|offset| unsafe { at.add(offset).read_volatile() } == byte)
    }

    fn page(&mut self, page: usize) -> *mut u8 {
        assert!(page < self.pages, "page {page} of {}", self.pages);
        // SAFETY: the page lies in the mapping.
        unsafe { self.start.as_ptr().add(page * self.page_size) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, which nothing points into any more. A failure leaves it mapped, which
        // does no harm.
        let _ =
            unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.pages * self.page_size) };
    }
}
