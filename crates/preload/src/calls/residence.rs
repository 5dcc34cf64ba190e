//! `mlock` and its kin, and `msync`: whether bytes stay here, and whether they are somewhere else.

use core::ffi::{c_int, c_uint, c_void};

use super::raw::try_call;
use super::{Errno, on_plain, pages, parts, zero_or_errno};
use crate::far;
use crate::ledger::{self, Count};

/// Far memory is not locked: what is here comes and goes, and the caller is told so.
fn lock(number: i64, address: usize, len: usize, flags: usize) -> Result<(), Errno> {
    let start = address / far::PAGE * far::PAGE;
    let end = address.checked_add(len).and_then(|end| end.checked_next_multiple_of(far::PAGE));
    let range = start..end.ok_or(libc::EINVAL)?;
    if !parts(&range)[1].is_empty() {
        ledger::count(Count::Refused, 1);
        return Err(libc::EAGAIN);
    }
    // SAFETY: as for the function of the C library, whose caller has made it.
    unsafe { try_call(number, [address, len, flags, 0, 0, 0]).map(|_| ()) }
}

/// Keeps memory here.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_mlock"))]
pub(crate) unsafe extern "C" fn mlock(address: *const c_void, len: usize) -> c_int {
    zero_or_errno(lock(libc::SYS_mlock, address.addr(), len, 0))
}

/// Keeps memory here.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_mlock2"))]
pub(crate) unsafe extern "C" fn mlock2(address: *const c_void, len: usize, flags: c_uint) -> c_int {
    zero_or_errno(lock(libc::SYS_mlock2, address.addr(), len, flags as usize))
}

/// Lets memory leave.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_munlock"))]
pub(crate) unsafe extern "C" fn munlock(address: *const c_void, len: usize) -> c_int {
    let unlocked =
        pages(address.addr() / far::PAGE * far::PAGE, len + address.addr() % far::PAGE).and_then(|range| {
            let [before, _, behind] = parts(&range);
            // SAFETY: by the contract of this function.
            unsafe {
                on_plain(libc::SYS_munlock, &before, 0)?;
                on_plain(libc::SYS_munlock, &behind, 0)
            }
        });
    zero_or_errno(unlocked)
}

/// Keeps all memory here.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_mlockall"))]
pub(crate) unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    let locked = if flags & libc::MCL_CURRENT != 0 && far::is_ready() {
        // It would bring all of far memory here.
        ledger::count(Count::Refused, 1);
        Err(libc::EAGAIN)
    } else {
        // SAFETY: by the contract of this function.
        unsafe { try_call(libc::SYS_mlockall, [flags as usize, 0, 0, 0, 0, 0]).map(|_| ()) }
    };
    zero_or_errno(locked)
}

/// Has what was written to a mapping be where it belongs. Far memory belongs nowhere else.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_msync"))]
pub(crate) unsafe extern "C" fn msync(address: *mut c_void, len: usize, flags: c_int) -> c_int {
    let synced = pages(address.addr(), len).and_then(|range| {
        let [before, _, behind] = parts(&range);
        // SAFETY: by the contract of this function.
        unsafe {
            on_plain(libc::SYS_msync, &before, flags as usize)?;
            on_plain(libc::SYS_msync, &behind, flags as usize)
        }
    });
    zero_or_errno(synced)
}
