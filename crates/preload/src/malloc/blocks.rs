//! Blocks of any length and alignment.

use core::ptr;

use super::cache::{give_block, take_block};
use super::long::{bytes_of as long_bytes, give_long, resize, room_for, take_long};
use super::sizes::{LONGEST, aligned_class_of, bytes_of, class_of};
use super::slabs::{ZERO, wrong};
use crate::directory::{self, Entry, GRAIN, Kind};
use crate::far::Far;

/// Takes a block.
#[inline]
pub(super) fn alloc(far: &Far, bytes: usize) -> Option<usize> {
    if bytes <= LONGEST {
        return take_block(far, class_of(bytes)).map(|block| block & !ZERO);
    }
    take_long(far, bytes, 1, false, 0).map(|(block, _)| block)
}

/// Takes a block full of zeros.
pub(super) fn alloc_zeroed(far: &Far, bytes: usize) -> Option<usize> {
    let (block, is_zero) = if bytes <= LONGEST {
        let block = take_block(far, class_of(bytes))?;
        (block & !ZERO, block & ZERO != 0)
    } else {
        take_long(far, bytes, 1, true, 0)?
    };
    if !is_zero {
        // SAFETY: the block has as many bytes, and no other thread knows it.
        unsafe { ptr::write_bytes(block as *mut u8, 0, bytes) };
    }
    Some(block)
}

/// Takes a block at a multiple of `align`, a power of two.
pub(super) fn alloc_aligned(far: &Far, align: usize, bytes: usize) -> Option<usize> {
    if align <= GRAIN {
        return alloc(far, bytes);
    }
    match aligned_class_of(bytes.max(1), align) {
        Some(class) => take_block(far, class).map(|block| block & !ZERO),
        None => take_long(far, bytes.max(1), align, false, 0).map(|(block, _)| block),
    }
}

/// What is known of the chunk that a block begins in.
fn entry_of(far: &Far, block: usize) -> (&'static Entry, Kind) {
    match directory::entry(far.chunk(block)).map(|entry| (entry, entry.kind())) {
        Some((entry, kind)) if kind != Kind::Free => (entry, kind),
        _ => wrong("what is freed or made longer is no block", block),
    }
}

/// How many bytes a block has.
pub(super) fn usable(far: &Far, block: usize) -> usize {
    match entry_of(far, block) {
        (entry, Kind::Long) => long_bytes(entry),
        (entry, _) => bytes_of(entry.slab().0),
    }
}

/// Gives a block back.
#[inline]
pub(super) fn free(far: &Far, block: usize) {
    match entry_of(far, block) {
        (entry, Kind::Long) => give_long(far, entry, block),
        (entry, _) => give_block(far, entry.slab().0, block),
    }
}

/// Makes a block longer or shorter, with what is in it as far as it fits. Returns where it is then; nothing if there is no memory,
/// and then it is as it was.
pub(super) fn realloc(far: &Far, block: usize, bytes: usize) -> Option<usize> {
    let (entry, kind) = entry_of(far, block);
    let had = usable(far, block);
    let stays = match kind {
        Kind::Long => bytes > LONGEST && resize(far, entry, block, bytes),
        _ => bytes <= had && (bytes > had / 2 || had <= 2 * GRAIN),
    };
    if stays {
        return Some(block);
    }
    let moved = if bytes <= LONGEST {
        alloc(far, bytes)?
    } else {
        let room = if bytes > had { room_for(bytes) } else { 0 };
        take_long(far, bytes, 1, false, room)?.0
    };
    // SAFETY: both blocks have as many bytes, and are different ones.
    unsafe { ptr::copy_nonoverlapping(block as *const u8, moved as *mut u8, had.min(bytes)) };
    free(far, block);
    Some(moved)
}
