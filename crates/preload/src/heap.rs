//! The memory of this library itself.
//!
//! It must not be far memory: fault threads would wait for themselves. Nor may it come from an allocator that the program has as
//! well: a handler of a signal that interrupted that allocator and touches far memory would wait for a fault thread, which waits
//! for the allocator. So the library has one of its own, on pages from the kernel, which no signal interrupts.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use dlmalloc::Dlmalloc;
use rustix::mm::MremapFlags;

use crate::lock::Lock;
use crate::pages;

/// From how many bytes on a block has pages of its own: then those that are never used take no memory.
const LONG: usize = 256 << 10;
const PAGE: usize = 4096;
/// Signals of the kernel's mask, and its size.
const ALL: u64 = u64::MAX;
const MASK: usize = size_of::<u64>();

struct Heap {
    blocks: Lock<Dlmalloc<Kernel>>,
}

#[global_allocator]
static HEAP: Heap = Heap { blocks: Lock::new(Dlmalloc::new_with_allocator(Kernel)) };

/// While it lives, no signal interrupts this thread.
pub(crate) struct Calm {
    before: u64,
}

impl Calm {
    pub(crate) fn new() -> Self {
        Self { before: block_signals() }
    }
}

impl Drop for Calm {
    fn drop(&mut self) {
        restore_signals(self.before);
    }
}

/// By the system call itself: `errno` stays, which a program may look at after it has freed something.
fn set_mask(new: &u64, before: &mut u64) {
    // SAFETY: both point to a mask of the size that is said.
    let result = unsafe {
        crate::calls::raw::call(
            libc::SYS_rt_sigprocmask,
            [
                libc::SIG_SETMASK as usize,
                ptr::from_ref(new) as usize,
                ptr::from_mut(before) as usize,
                MASK,
                0,
                0,
            ],
        )
    };
    debug_assert_eq!(result, 0);
}

/// Blocks all signals to this thread, and returns which were blocked before.
pub(crate) fn block_signals() -> u64 {
    let mut before = 0;
    set_mask(&ALL, &mut before);
    before
}

/// Has these signals blocked, and no others.
pub(crate) fn restore_signals(before: u64) {
    set_mask(&before, &mut 0);
}

fn is_long(layout: Layout) -> bool {
    layout.size() >= LONG && layout.align() <= PAGE
}

// SAFETY: blocks come from an allocator that one thread at a time uses, or are pages of their own; both are decided by the layout
// alone, so that a block is freed where it came from.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_long(layout) {
            return pages::take(layout.size()).map_or(ptr::null_mut(), NonNull::as_ptr);
        }
        let _calm = Calm::new();
        // SAFETY: by the contract of this function.
        unsafe { self.blocks.lock().malloc(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if let (true, Some(start)) = (is_long(layout), NonNull::new(block)) {
            // SAFETY: by the contract of this function: taken in `alloc` for this layout.
            return unsafe { pages::give(start, layout.size()) };
        }
        let _calm = Calm::new();
        // SAFETY: by the contract of this function.
        unsafe { self.blocks.lock().free(block, layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the contract of this function.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() && !is_long(layout) {
            // SAFETY: the block has as many bytes, and no other thread knows it.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }
}

/// Holds the heap until [`release`].
pub(crate) fn hold() {
    HEAP.blocks.hold();
}

/// Lets the heap go.
pub(crate) fn release() {
    HEAP.blocks.release();
}

/// The kernel, as the allocator asks it for memory.
struct Kernel;

// SAFETY: what it gives are pages that nothing else has.
unsafe impl dlmalloc::Allocator for Kernel {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        match pages::take(size) {
            Some(start) => (start.as_ptr(), size, 0),
            None => (ptr::null_mut(), 0, 0),
        }
    }

    fn remap(&self, start: *mut u8, old: usize, new: usize, can_move: bool) -> *mut u8 {
        let flags = if can_move { MremapFlags::MAYMOVE } else { MremapFlags::empty() };
        // SAFETY: the allocator's own pages, which it says may be elsewhere afterwards, or not.
        let moved = unsafe { rustix::mm::mremap(start.cast(), old, new, flags) };
        moved.map_or(ptr::null_mut(), |moved| moved.cast())
    }

    fn free_part(&self, start: *mut u8, old: usize, new: usize) -> bool {
        // SAFETY: the allocator's own pages, the rest of which it does not use.
        unsafe { rustix::mm::munmap(start.add(new).cast(), old - new).is_ok() }
    }

    fn free(&self, start: *mut u8, size: usize) -> bool {
        // SAFETY: the allocator's own pages, which it does not use.
        unsafe { rustix::mm::munmap(start.cast(), size).is_ok() }
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}
