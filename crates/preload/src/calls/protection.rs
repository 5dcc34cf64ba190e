//! `mprotect`.

use core::ffi::{c_int, c_void};

use super::mapping::protection;
use super::{Errno, on_plain, pages, parts, spans, zero_or_errno};
use crate::far;
use crate::next::KeptErrno;

fn protect(address: usize, len: usize, rights: c_int) -> Result<(), Errno> {
    let range = pages(address, len)?;
    let [before, inside, behind] = parts(&range);
    // SAFETY: as for `mprotect`, whose caller has made it.
    unsafe { on_plain(libc::SYS_mprotect, &before, rights as usize)? };
    if !inside.is_empty() {
        match far::get() {
            // A child that was forked has a copy of the mapping that is its own.
            // SAFETY: as for `mprotect`, whose caller has made it.
            None => unsafe { on_plain(libc::SYS_mprotect, &inside, rights as usize)? },
            Some(far) => {
                let wanted = protection(rights).ok_or(libc::EINVAL)?;
                for part in spans::mapped(&inside) {
                    far.protect(&part, wanted).map_err(|_| libc::ENOMEM)?;
                }
                if !spans::covers(&inside) {
                    return Err(libc::ENOMEM);
                }
            }
        }
    }
    // SAFETY: as for `mprotect`, whose caller has made it.
    unsafe { on_plain(libc::SYS_mprotect, &behind, rights as usize) }
}

/// Sets what may be done to pages.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_mprotect"))]
pub(crate) unsafe extern "C" fn mprotect(address: *mut c_void, len: usize, rights: c_int) -> c_int {
    let protected = {
        let _kept = KeptErrno::new();
        protect(address.addr(), len, rights)
    };
    zero_or_errno(protected)
}

/// Sets what may be done to pages, and by which key. Far memory has no keys.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_pkey_mprotect"))]
pub(crate) unsafe extern "C" fn pkey_mprotect(
    address: *mut c_void,
    len: usize,
    rights: c_int,
    key: c_int,
) -> c_int {
    let protected = {
        let _kept = KeptErrno::new();
        match pages(address.addr(), len) {
            Ok(range) if parts(&range)[1].is_empty() => {
                let arguments = [range.start, range.len(), rights as usize, key as usize, 0, 0];
                // SAFETY: by the contract of this function.
                unsafe { super::raw::try_call(libc::SYS_pkey_mprotect, arguments).map(|_| ()) }
            }
            Ok(_) if key > 0 => Err(libc::EINVAL),
            Ok(_) => protect(address.addr(), len, rights),
            Err(errno) => Err(errno),
        }
    };
    zero_or_errno(protected)
}
