//! The C library's functions for mappings, under their names. What is not about far memory goes on to the kernel as it is.

mod advice;
mod mapping;
mod moving;
mod protection;
pub(crate) mod raw;
mod residence;
mod spans;

use core::ffi::{c_int, c_void};
use core::ops::Range;

use crate::far::PAGE;
use crate::next::set_errno;

pub(crate) use mapping::begin_with;
pub(crate) use spans::{begin, hold, release};

/// The number of an error of the C library.
pub(crate) type Errno = c_int;

/// What the C library's function returns: the address, or all ones with `errno`.
fn address_or_errno(result: Result<usize, Errno>) -> *mut c_void {
    match result {
        Ok(address) => address as *mut c_void,
        Err(errno) => {
            set_errno(errno);
            libc::MAP_FAILED
        }
    }
}

/// What the C library's function returns: zero, or minus one with `errno`.
fn zero_or_errno(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

/// A range of whole pages, as the kernel takes it.
fn pages(start: usize, len: usize) -> Result<Range<usize>, Errno> {
    let len = len.checked_next_multiple_of(PAGE).ok_or(libc::ENOMEM)?;
    let end = start.checked_add(len).ok_or(libc::ENOMEM)?;
    if start.is_multiple_of(PAGE) { Ok(start..end) } else { Err(libc::EINVAL) }
}

/// A range in three parts: before far memory, in it, and behind it.
fn parts(range: &Range<usize>) -> [Range<usize>; 3] {
    let far = crate::far::part_of(range);
    if far.is_empty() {
        return [range.clone(), range.end..range.end, range.end..range.end];
    }
    [range.start..far.start, far.clone(), far.end..range.end]
}

/// Does a system call on a range that is not far, unless it is empty.
///
/// # Safety
///
/// As the system call demands.
unsafe fn on_plain(number: i64, range: &Range<usize>, third: usize) -> Result<(), Errno> {
    if range.is_empty() {
        return Ok(());
    }
    // SAFETY: by the contract of this function.
    unsafe { raw::try_call(number, [range.start, range.len(), third, 0, 0, 0]).map(|_| ()) }
}
