//! Pages straight from the kernel, past everything that this library stands in front of.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use rustix::mm::{MapFlags, ProtFlags};

/// Takes zeroed pages for so many bytes. They take memory as they are written.
pub(crate) fn take(bytes: usize) -> Option<NonNull<u8>> {
    let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nothing.
    let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, rights, flags) };
    NonNull::new(start.ok()?.cast())
}

/// Gives pages back.
///
/// # Safety
///
/// They were taken by [`take`], with as many bytes, and nothing uses them.
pub(crate) unsafe fn give(start: NonNull<u8>, bytes: usize) {
    // SAFETY: by the contract above. There is no caller to tell of an error, and no harm but lost memory.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast::<c_void>(), bytes) };
}
