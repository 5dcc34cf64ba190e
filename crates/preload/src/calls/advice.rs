//! `madvise`.

use core::ffi::{c_int, c_void};
use core::ops::Range;

use outboard::Advice;

use super::{Errno, on_plain, pages, parts, spans, zero_or_errno};
use crate::far::{self, Far};
use crate::next::KeptErrno;

/// Advice that came with newer kernels.
const COLLAPSE: c_int = 25;
const POPULATE_READ: c_int = 22;
const POPULATE_WRITE: c_int = 23;
const COLD: c_int = 20;
const PAGEOUT: c_int = 21;

fn advise(address: usize, len: usize, advice: c_int) -> Result<(), Errno> {
    let range = pages(address, len)?;
    let [before, inside, behind] = parts(&range);
    // SAFETY: as for `madvise`, whose caller has made it.
    unsafe { on_plain(libc::SYS_madvise, &before, advice as usize)? };
    if !inside.is_empty() {
        match far::get() {
            Some(far) => {
                for part in spans::mapped(&inside) {
                    advise_far(far, &part, advice)?;
                }
                // Blocks of the allocator are far memory too, and no mapping of the program.
                if !spans::covers(&inside) && !is_hint(advice) {
                    return Err(libc::ENOMEM);
                }
            }
            None => advise_forked(&inside, advice)?,
        }
    }
    // SAFETY: as for `madvise`, whose caller has made it.
    unsafe { on_plain(libc::SYS_madvise, &behind, advice as usize) }
}

/// Whether nothing changes but speed.
fn is_hint(advice: c_int) -> bool {
    !matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE | libc::MADV_REMOVE | libc::MADV_WIPEONFORK)
}

fn advise_far(far: &Far, range: &Range<usize>, advice: c_int) -> Result<(), Errno> {
    match advice {
        libc::MADV_DONTNEED | libc::MADV_FREE => spans::clear(far, range)?,
        libc::MADV_NORMAL => far.advise(range, Advice::Normal),
        libc::MADV_SEQUENTIAL => far.advise(range, Advice::Sequential),
        libc::MADV_RANDOM => far.advise(range, Advice::Random),
        libc::MADV_WILLNEED => far.advise(range, Advice::WillNeed),
        COLD | PAGEOUT => far.advise(range, Advice::DontNeed),
        POPULATE_READ | POPULATE_WRITE => far.prefault(range),
        // Chunks are never made of large pages, never shared and never dumped; children have what their parent has.
        libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_MERGEABLE
        | libc::MADV_UNMERGEABLE
        | libc::MADV_DONTDUMP
        | libc::MADV_DODUMP
        | libc::MADV_DOFORK
        | libc::MADV_DONTFORK
        | libc::MADV_KEEPONFORK => {}
        COLLAPSE => return Err(libc::EINVAL),
        _ => return Err(libc::EINVAL),
    }
    Ok(())
}

/// In a child that was forked nothing is given up: what has to be zero is filled with zeros.
fn advise_forked(range: &Range<usize>, advice: c_int) -> Result<(), Errno> {
    if advice == libc::MADV_DONTNEED {
        // SAFETY: the program says that it needs what is there no longer.
        unsafe { core::ptr::write_bytes(range.start as *mut u8, 0, range.len()) };
    }
    if is_hint(advice) || matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE) {
        Ok(())
    } else {
        Err(libc::EINVAL)
    }
}

/// Says how memory will be used.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_madvise"))]
pub(crate) unsafe extern "C" fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    let advised = {
        let _kept = KeptErrno::new();
        advise(address.addr(), len, advice)
    };
    zero_or_errno(advised)
}

/// Says how memory will be used. It returns the error.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_posix_madvise"))]
pub(crate) unsafe extern "C" fn posix_madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    // The C library does nothing for this one, which would lose what is there.
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    let _kept = KeptErrno::new();
    advise(address.addr(), len, advice).err().unwrap_or(0)
}
