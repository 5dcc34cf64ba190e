//! `mremap`.

use core::ffi::{c_int, c_void};
use core::ops::Range;
use core::ptr;

use outboard::PageProtection;

use super::raw::try_call;
use super::{Errno, address_or_errno, pages, parts, spans};
use crate::far::{self, CHUNK, Far};
use crate::next::KeptErrno;

/// The call as it was made.
struct Wish {
    address: usize,
    old: usize,
    new: usize,
    flags: c_int,
    to: usize,
}

fn remap(wish: &Wish) -> Result<usize, Errno> {
    let Wish { address, old, new, flags, to } = *wish;
    let old_range = pages(address, old)?;
    let [_, old_far, _] = parts(&old_range);
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    let new_range = if is_fixed { pages(to, new)? } else { 0..0 };
    let [_, new_far, _] = parts(&new_range);
    if old_far.is_empty() && new_far.is_empty() {
        let arguments = [address, old, new, flags as usize, to, 0];
        // SAFETY: as for `mremap`, whose caller has made it.
        return unsafe { try_call(libc::SYS_mremap, arguments) };
    }
    let known = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    let Some(far) = far::get() else { return Err(libc::ENOMEM) };
    if flags & !known != 0
        || new == 0
        || old == 0
        || (is_fixed && flags & libc::MREMAP_MAYMOVE == 0)
        || (is_fixed && old_range.start < new_range.end && new_range.start < old_range.end)
    {
        return Err(libc::EINVAL);
    }
    let new_len = new.checked_next_multiple_of(far::PAGE).ok_or(libc::ENOMEM)?;
    if old_far != old_range || (!new_far.is_empty() && new_far != new_range) {
        // From ordinary memory to far memory, or over a border.
        return Err(libc::EFAULT);
    }
    if !spans::covers(&old_range) {
        return Err(libc::EFAULT);
    }
    let leaves_it = flags & libc::MREMAP_DONTUNMAP != 0;
    if is_fixed {
        return move_to(far, &old_range, (to, new_len), leaves_it);
    }
    if leaves_it {
        return if old_range.len() == new_len {
            relocate(far, &old_range, new_len, true)
        } else {
            Err(libc::EINVAL)
        };
    }
    if new_len <= old_range.len() {
        spans::unmap(far, &(old_range.start + new_len..old_range.end));
        return Ok(old_range.start);
    }
    if spans::extend(far, &old_range, old_range.start + new_len) {
        return Ok(old_range.start);
    }
    if flags & libc::MREMAP_MAYMOVE == 0 {
        return Err(libc::ENOMEM);
    }
    relocate(far, &old_range, new_len, false)
}

/// Moves a mapping to another place in far memory, where it has room to grow.
fn relocate(far: &Far, old: &Range<usize>, new_len: usize, leaves_it: bool) -> Result<usize, Errno> {
    let spare = if new_len > old.len() { new_len } else { 0 };
    let to = spans::map(far, new_len, spare, PageProtection::ReadWrite).ok_or(libc::ENOMEM)?;
    carry(far, old, to..to + new_len, leaves_it)
}

/// Moves a mapping to an address.
fn move_to(
    far: &Far,
    old: &Range<usize>,
    (to, new_len): (usize, usize),
    leaves_it: bool,
) -> Result<usize, Errno> {
    let new = to..to + new_len;
    if far::contains(to) {
        spans::map_at(far, &new, PageProtection::ReadWrite)?;
    } else {
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let arguments = [to, new_len, rights as usize, flags as usize, usize::MAX, 0];
        // SAFETY: the program says that what is there is to be replaced.
        unsafe { try_call(libc::SYS_mmap, arguments)? };
    }
    carry(far, old, new, leaves_it)
}

/// Brings the bytes and the rights of a mapping to another, as far as that has room, and takes it back or clears it.
fn carry(far: &Far, old: &Range<usize>, new: Range<usize>, leaves_it: bool) -> Result<usize, Errno> {
    let rights = far.protection_at(old.start);
    if !rights.can_read() {
        // Its bytes are kept, and have to be read.
        far.protect(old, PageProtection::Read).map_err(|_| libc::ENOMEM)?;
    }
    let len = old.len().min(new.len());
    let mut at = 0;
    while at < len {
        let bytes = (CHUNK - (old.start + at) % CHUNK).min(len - at);
        // What was never touched is zero at both places.
        if far.is_touched(old.start + at) {
            // SAFETY: both are mapped, one may be read and one written, and they are different places.
            unsafe {
                ptr::copy_nonoverlapping((old.start + at) as *const u8, (new.start + at) as *mut u8, bytes)
            };
        }
        at += bytes;
    }
    if far::contains(new.start) {
        far.protect(&new, rights).map_err(|_| libc::ENOMEM)?;
    } else if rights != PageProtection::ReadWrite {
        let rights = if rights.can_read() { libc::PROT_READ } else { libc::PROT_NONE };
        // SAFETY: the mapping made just now.
        unsafe { try_call(libc::SYS_mprotect, [new.start, new.len(), rights as usize, 0, 0, 0])? };
    }
    if leaves_it {
        spans::clear(far, old)?;
        far.protect(old, rights).map_err(|_| libc::ENOMEM)?;
    } else {
        spans::unmap(far, old);
    }
    Ok(new.start)
}

/// Makes a mapping longer or shorter, or moves it.
///
/// # Safety
///
/// As for the function of the C library, which takes the last argument only with `MREMAP_FIXED` or `MREMAP_DONTUNMAP`.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_mremap"))]
pub(crate) unsafe extern "C" fn mremap(
    address: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    let moved = {
        let _kept = KeptErrno::new();
        remap(&Wish { address: address.addr(), old, new, flags, to: to.addr() })
    };
    address_or_errno(moved)
}
