//! `mmap` and `munmap`.

use core::ffi::{c_int, c_void};
use core::ops::Range;

use outboard::PageProtection;

use super::raw::try_call;
use super::{Errno, address_or_errno, on_plain, pages, parts, spans, zero_or_errno};
use crate::far::{self, Far};
use crate::ledger::{self, Count};
use crate::next::KeptErrno;

/// From how many bytes on a mapping is far.
static THRESHOLD: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(usize::MAX);

/// What a mapping is for, or has to be, that far memory is not.
const UNFIT: c_int = libc::MAP_STACK | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB | libc::MAP_LOCKED;
#[cfg(target_arch = "x86_64")]
const LOW: c_int = libc::MAP_32BIT;
#[cfg(not(target_arch = "x86_64"))]
const LOW: c_int = 0;

/// The call as it was made.
#[derive(Clone, Copy)]
struct Wish {
    address: usize,
    len: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
}

impl Wish {
    fn is_anonymous(&self) -> bool {
        self.flags & libc::MAP_ANONYMOUS != 0 && self.flags & libc::MAP_TYPE == libc::MAP_PRIVATE
    }

    fn has(&self, flags: c_int) -> bool {
        self.flags & flags != 0
    }

    /// As the kernel does it.
    fn plain(&self) -> Result<usize, Errno> {
        let Self { address, len, rights, flags, file, offset } = *self;
        let arguments = [address, len, rights as usize, flags as usize, file as usize, offset as usize];
        // SAFETY: as for `mmap`, whose caller has made it.
        unsafe { try_call(libc::SYS_mmap, arguments) }
    }
}

/// Begins to take mappings of so many bytes and more.
pub(crate) fn begin_with(threshold: usize) {
    THRESHOLD.store(threshold, core::sync::atomic::Ordering::Relaxed);
}

/// What the rights of a mapping are for far memory, if it can have them.
pub(super) fn protection(rights: c_int) -> Option<PageProtection> {
    let (read, write, run) = (libc::PROT_READ, libc::PROT_WRITE, libc::PROT_EXEC);
    match rights {
        libc::PROT_NONE => Some(PageProtection::None),
        rights if rights & !(read | write | run) != 0 => None,
        // To write is to read as well, and so is to run.
        rights if rights & run != 0 && rights & write != 0 => Some(PageProtection::ReadWriteExecute),
        rights if rights & run != 0 => Some(PageProtection::ReadExecute),
        rights if rights & write != 0 => Some(PageProtection::ReadWrite),
        _ => Some(PageProtection::Read),
    }
}

fn map(wish: Wish) -> Result<usize, Errno> {
    let fixed = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE;
    if wish.has(fixed) {
        return map_fixed(wish);
    }
    if wish.len < THRESHOLD.load(core::sync::atomic::Ordering::Relaxed) || !wish.is_anonymous() {
        return wish.plain();
    }
    let Some(far) = far::get() else { return wish.plain() };
    let len = wish.len.checked_next_multiple_of(far::PAGE).ok_or(libc::ENOMEM)?;
    let fit = protection(wish.rights).filter(|_| !wish.has(UNFIT | LOW));
    let Some(address) = fit.and_then(|protection| spans::map(far, len, 0, protection)) else {
        ledger::plain(len);
        return wish.plain();
    };
    if wish.has(libc::MAP_POPULATE) {
        far.advise(&(address..address + len), outboard::Advice::WillNeed);
    }
    Ok(address)
}

/// A mapping at an address: over far memory it becomes far as well.
fn map_fixed(wish: Wish) -> Result<usize, Errno> {
    let range = match pages(wish.address, wish.len) {
        Ok(range) if !range.is_empty() => range,
        // The kernel has the error.
        _ => return wish.plain(),
    };
    let [_, inside, _] = parts(&range);
    if inside.is_empty() {
        return wish.plain();
    }
    let Some(far) = far::get() else {
        // A child that was forked shares what it has of its parent, and leaves it.
        return Err(libc::ENOMEM);
    };
    if wish.has(libc::MAP_FIXED_NOREPLACE) && spans::touches(&inside) {
        return Err(libc::EEXIST);
    }
    let protection = protection(wish.rights).filter(|_| !wish.has(libc::MAP_GROWSDOWN | libc::MAP_HUGETLB));
    let (Some(protection), true) = (protection, inside == range) else {
        ledger::count(Count::Refused, 1);
        return Err(libc::ENOMEM);
    };
    if wish.is_anonymous() {
        spans::map_at(far, &range, protection)?;
        return Ok(range.start);
    }
    if wish.flags & libc::MAP_TYPE != libc::MAP_PRIVATE || wish.has(libc::MAP_ANONYMOUS) {
        // What several processes share is not far memory, and cannot lie within it.
        ledger::count(Count::Refused, 1);
        return Err(libc::ENOMEM);
    }
    copy_file(far, wish, &range, protection)
}

/// A private mapping of a file over far memory: the bytes of the file are copied there.
fn copy_file(
    far: &Far,
    wish: Wish,
    range: &Range<usize>,
    protection: PageProtection,
) -> Result<usize, Errno> {
    // The kernel says whether the file can be mapped so.
    let trial =
        Wish { address: 0, flags: wish.flags & !(libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE), ..wish };
    let source = trial.plain()?;
    // SAFETY: the mapping made just now, which no other code knows.
    unsafe { try_call(libc::SYS_munmap, [source, range.len(), 0, 0, 0, 0])? };
    spans::map_at(far, range, PageProtection::ReadWrite)?;
    let mut done = 0;
    let mut buffer = [0_u8; 16 << 10];
    while done < range.len() {
        let bytes = buffer.len().min(range.len() - done);
        let at = wish.offset as usize + done;
        let place = buffer.as_mut_ptr() as usize;
        // SAFETY: reads into the buffer, which has as many bytes.
        let read = unsafe { try_call(libc::SYS_pread64, [wish.file as usize, place, bytes, at, 0, 0])? };
        if read == 0 {
            break;
        }
        // SAFETY: the range is mapped and may be written, and the buffer has as many bytes.
        unsafe { core::ptr::copy_nonoverlapping(buffer.as_ptr(), (range.start + done) as *mut u8, read) };
        done += read;
    }
    far.protect(range, protection).map_err(|_| libc::ENOMEM)?;
    ledger::count(Count::Copied, 1);
    Ok(range.start)
}

fn unmap(address: usize, len: usize) -> Result<(), Errno> {
    let range = pages(address, len)?;
    let [before, inside, behind] = parts(&range);
    if !inside.is_empty()
        && let Some(far) = far::get()
    {
        let _kept = KeptErrno::new();
        spans::unmap(far, &inside);
    }
    if range.is_empty() {
        return Err(libc::EINVAL);
    }
    // SAFETY: as for `munmap`, whose caller has made it.
    unsafe {
        on_plain(libc::SYS_munmap, &before, 0)?;
        on_plain(libc::SYS_munmap, &behind, 0)
    }
}

/// Maps memory.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_mmap"))]
pub(crate) unsafe extern "C" fn mmap(
    address: *mut c_void,
    len: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let mapped = {
        let _kept = KeptErrno::new();
        map(Wish { address: address.addr(), len, rights, flags, file, offset })
    };
    address_or_errno(mapped)
}

/// Maps memory.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_mmap64"))]
pub(crate) unsafe extern "C" fn mmap64(
    address: *mut c_void,
    len: usize,
    rights: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: by the contract of this function.
    unsafe { mmap(address, len, rights, flags, file, offset) }
}

/// Takes a mapping back.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_munmap"))]
pub(crate) unsafe extern "C" fn munmap(address: *mut c_void, len: usize) -> c_int {
    zero_or_errno(unmap(address.addr(), len))
}
