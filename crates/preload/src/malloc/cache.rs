//! The free blocks that a thread keeps for itself.

use core::cell::Cell;
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};

use super::sizes::{COUNT, bytes_of};
use super::slabs::{give_blocks, take_blocks};
use crate::far::{self, Far};
use crate::pages;

/// How many blocks of a size are kept at most, and how many bytes of them.
const BLOCKS: usize = 32;
const BYTES: usize = 64 << 10;

/// Blocks of one size.
struct Bin {
    count: usize,
    blocks: [usize; BLOCKS],
}

/// The blocks that a thread keeps. All zero is one that has none.
struct Cache {
    bins: [Bin; COUNT],
}

thread_local! {
    /// This thread's: none yet, or [`ENDED`].
    static CACHE: Cell<*mut Cache> = const { Cell::new(ptr::null_mut()) };
}

/// Stands for the cache of a thread that ends: what it frees goes back at once.
const ENDED: *mut Cache = ptr::without_provenance_mut(1);

/// By which the C library tells that a thread ends.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Has threads give their blocks back when they end.
pub(crate) fn prepare_threads() -> bool {
    let mut key = 0;
    // SAFETY: the function takes what is set for the key, and the place of the key is ours.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0;
    KEY.store(if made { key } else { u32::MAX }, Ordering::Relaxed);
    made
}

const fn most(class: usize) -> usize {
    let fit = BYTES / bytes_of(class);
    if fit < 2 {
        2
    } else if fit > BLOCKS {
        BLOCKS
    } else {
        fit
    }
}

/// This thread's cache, which is made if it has none.
#[inline]
fn own() -> Option<NonNull<Cache>> {
    let cache = CACHE.get();
    if cache.is_null() {
        return make();
    }
    NonNull::new(cache).filter(|cache| cache.as_ptr() != ENDED)
}

#[cold]
fn make() -> Option<NonNull<Cache>> {
    let key = KEY.load(Ordering::Relaxed);
    if key == u32::MAX {
        return None;
    }
    let cache = pages::take(size_of::<Cache>())?.cast::<Cache>();
    CACHE.set(cache.as_ptr());
    // SAFETY: the key was made, and what is set is taken by `end` alone.
    if unsafe { libc::pthread_setspecific(key, cache.as_ptr().cast::<c_void>()) } != 0 {
        CACHE.set(ENDED);
        return None;
    }
    Some(cache)
}

/// A thread ends.
unsafe extern "C" fn end(cache: *mut c_void) {
    CACHE.set(ENDED);
    let Some(cache) = NonNull::new(cache.cast::<Cache>()) else { return };
    if let Some(far) = far::get() {
        // SAFETY: it was made by `make` for this thread, which uses it no more.
        for (class, bin) in unsafe { &(*cache.as_ptr()).bins }.iter().enumerate() {
            give_blocks(far, class, &bin.blocks[..bin.count]);
        }
    }
    // SAFETY: taken in `make`, and not used any more.
    unsafe { pages::give(cache.cast(), size_of::<Cache>()) };
}

/// Takes a block of a size, which may be marked as zero.
#[inline]
pub(super) fn take_block(far: &Far, class: usize) -> Option<usize> {
    let Some(mut cache) = own() else {
        let mut one = [0];
        return (take_blocks(far, class, &mut one) == 1).then_some(one[0]);
    };
    // SAFETY: this thread's, which does nothing else with it meanwhile.
    let bin = unsafe { &mut cache.as_mut().bins[class] };
    if bin.count == 0 {
        let wanted = most(class).div_ceil(2);
        bin.count = take_blocks(far, class, &mut bin.blocks[..wanted]);
        // The lowest first.
        bin.blocks[..bin.count].reverse();
    }
    bin.count = bin.count.checked_sub(1)?;
    Some(bin.blocks[bin.count])
}

/// Gives a block of a size back.
#[inline]
pub(super) fn give_block(far: &Far, class: usize, block: usize) {
    let Some(mut cache) = own() else { return give_blocks(far, class, &[block]) };
    // SAFETY: this thread's, which does nothing else with it meanwhile.
    let bin = unsafe { &mut cache.as_mut().bins[class] };
    let most = most(class);
    if bin.count == most {
        // Those that were freed first.
        let half = most.div_ceil(2);
        give_blocks(far, class, &bin.blocks[..half]);
        bin.blocks.copy_within(half..most, 0);
        bin.count -= half;
    }
    bin.blocks[bin.count] = block;
    bin.count += 1;
}
