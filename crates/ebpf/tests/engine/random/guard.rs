//! Memory that no access can leave unnoticed: an allocator that puts what programs access between pages that cannot be
//! touched, with a pattern in the bytes that are left over.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

#[global_allocator]
static ALLOCATOR: Guarded = Guarded;

const PAGE: usize = 4096;
const PATTERN: u8 = 0xc5;
/// Nothing else that tests allocate in numbers is aligned so, and programs' memory always is.
const ALIGNMENT: usize = 16;

/// Where the memory starts that lies between guard pages, and how long it is.
static STARTS: [AtomicUsize; 512] = [const { AtomicUsize::new(0) }; 512];
/// How many allocations were guarded, to know that any were.
static GUARDED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
}

/// Runs with guards around programs' memory, and says how many allocations had them.
pub(super) fn guarded(run: impl FnOnce()) -> usize {
    let before = GUARDED.load(Ordering::Relaxed);
    ON.set(true);
    run();
    ON.set(false);
    GUARDED.load(Ordering::Relaxed) - before
}

struct Guarded;

/// The pages of an allocation without its guards, and where in them it starts: as far behind as it can.
fn plan(layout: Layout) -> (usize, usize) {
    let pages = layout.size().next_multiple_of(PAGE);
    (pages, pages - layout.size().next_multiple_of(layout.align()))
}

fn map(layout: Layout) -> *mut u8 {
    let Some(slot) =
        STARTS.iter().find(|slot| slot.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    else {
        return null_mut();
    };
    let (pages, start) = plan(layout);
    // SAFETY: new mappings, which no other code knows of; all bytes written are within the middle one.
    unsafe {
        let Ok(whole) = mmap_anonymous(null_mut(), pages + 2 * PAGE, ProtFlags::empty(), MapFlags::PRIVATE)
        else {
            slot.store(0, Ordering::Release);
            return null_mut();
        };
        let middle = whole.cast::<u8>().add(PAGE);
        mprotect(middle.cast(), pages, MprotectFlags::READ | MprotectFlags::WRITE).unwrap();
        middle.write_bytes(PATTERN, pages);
        let memory = middle.add(start);
        memory.write_bytes(0, layout.size());
        slot.store(memory as usize, Ordering::Release);
        GUARDED.fetch_add(1, Ordering::Relaxed);
        memory
    }
}

fn unmap(memory: *mut u8, layout: Layout) {
    let (pages, start) = plan(layout);
    // SAFETY: `map` made this mapping for the same layout, and its owner has given it up.
    unsafe {
        let middle = memory.sub(start);
        let all = std::slice::from_raw_parts(middle, pages);
        let untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == PATTERN);
        if !untouched(&all[..start]) || !untouched(&all[start + layout.size()..]) {
            // Nothing may panic while memory is given back.
            std::process::abort();
        }
        munmap(middle.sub(PAGE).cast(), pages + 2 * PAGE).unwrap();
    }
}

// SAFETY: what is not mapped here comes from the system's allocator, and goes back to it; what is mapped is as long
// and as aligned as wanted, and zeroed.
unsafe impl GlobalAlloc for Guarded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is the same.
        unsafe { self.alloc_zeroed(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() == ALIGNMENT && layout.size() > 0 && ON.try_with(Cell::get).unwrap_or(false) {
            let memory = map(layout);
            if !memory.is_null() {
                return memory;
            }
        }
        // SAFETY: the caller's promise is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.align() == ALIGNMENT
            && let Some(slot) = STARTS.iter().find(|slot| slot.load(Ordering::Acquire) == memory as usize)
        {
            slot.store(1, Ordering::Relaxed);
            unmap(memory, layout);
            slot.store(0, Ordering::Release);
            return;
        }
        // SAFETY: it was not mapped here, so it came from the system's allocator.
        unsafe { System.dealloc(memory, layout) };
    }
}
