//! Pages with machine code: written first, then executable, never both.

use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("code is made for x86-64 and aarch64 only");

/// Code that can be executed and no longer be changed. It is unmapped with the last who may call it.
#[derive(Debug)]
pub(super) struct Pages {
    start: NonNull<u8>,
    mapped: usize,
}

// SAFETY: nobody writes these pages once they exist as this type.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps pages, copies `code` there and makes them executable.
    pub(super) fn new(code: &[u8]) -> Result<Pages, Errno> {
        let mapped = code.len().max(1).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let pages = Pages { start, mapped };
        // SAFETY: the mapping is at least as long as the code, writable and known to nobody else.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(code).cast(), code.len()) };
        // SAFETY: these are whole pages of the mapping from above, to which there are no references.
        unsafe { mprotect(start.as_ptr().cast(), mapped, MprotectFlags::READ | MprotectFlags::EXEC)? };
        pages.announce();
        Ok(pages)
    }

    /// The native address of the code's byte at `offset`.
    pub(super) fn at(&self, offset: u32) -> *const u8 {
        debug_assert!((offset as usize) < self.mapped);
        self.start.as_ptr().wrapping_add(offset as usize)
    }

    /// Instruction caches of x86-64 see what was written.
    #[cfg(target_arch = "x86_64")]
    fn announce(&self) {}

    /// Writes new code from the data caches and drops what the instruction caches have of it.
    #[cfg(target_arch = "aarch64")]
    fn announce(&self) {
        // The smallest line an implementation can have.
        const LINE: usize = 16;
        let lines = || (0..self.mapped).step_by(LINE).map(|offset| self.start.as_ptr().wrapping_add(offset));
        for line in lines() {
            // SAFETY: cleans a line of a mapping that is there; this changes no memory.
            unsafe { std::arch::asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier.
        unsafe { std::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
        for line in lines() {
            // SAFETY: drops a line from the instruction cache; this changes no memory.
            unsafe { std::arch::asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: barriers.
        unsafe { std::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more. That it fails means only that
        // the pages stay.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}
