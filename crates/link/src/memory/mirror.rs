//! A ring's bytes mapped twice in a row, so that nothing ever wraps around.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// `capacity` bytes of a memory file, visible at `start` and again right behind: a span that begins anywhere in
/// the first copy and is no longer than `capacity` is contiguous.
pub struct Mirror {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the memory is only touched by the owner of the ring's cursors, through raw copies.
unsafe impl Send for Mirror {}

impl Mirror {
    /// Maps `capacity` bytes of `descriptor` from `offset`; both are multiples of the page size, and `capacity`
    /// is a power of two.
    pub fn map(descriptor: BorrowedFd<'_>, offset: u64, capacity: usize) -> Result<Self, Errno> {
        assert!(capacity.is_power_of_two(), "a mirror's capacity is a power of two");
        // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nothing; it only reserves
        // the addresses.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                2 * capacity,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )?
        };
        let mirror = Self { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, capacity };
        // Its pages are there when they are first touched, and not before: a daemon has thousands of links that say little.
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        for half in 0..2 {
            // SAFETY: replaces one half of the reservation made above, which no other code knows of.
            unsafe {
                let at = start.cast::<u8>().add(half * capacity).cast::<c_void>();
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                rustix::mm::mmap(at, capacity, protection, flags, descriptor, offset)?;
            }
        }
        Ok(mirror)
    }

    /// Fresh memory that no other process sees.
    pub fn private(capacity: usize) -> Result<Self, Errno> {
        let descriptor = rustix::fs::memfd_create(c"outboard-buffer", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&descriptor, capacity as u64)?;
        Self::map(descriptor.as_fd(), 0, capacity)
    }

    /// How many bytes there are.
    #[inline]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Where the byte that a cursor counts to lies. At least `capacity` bytes follow.
    #[inline]
    pub const fn at(&self, cursor: u64) -> NonNull<u8> {
        let offset = (cursor as usize) & (self.capacity - 1);
        // SAFETY: less than `capacity` into a mapping of twice that.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // SAFETY: mapped with this length and owned by `self`. A failure could only mean that it is not mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), 2 * self.capacity) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_over_the_end_is_at_the_beginning() {
        let mirror = Mirror::private(1 << 16).unwrap();
        // SAFETY: inside the mapping, and nothing else uses it.
        unsafe {
            mirror.at((1 << 16) - 2).cast::<[u8; 4]>().as_ptr().write(*b"wrap");
            assert_eq!(mirror.at(0).cast::<[u8; 2]>().as_ptr().read(), *b"ap");
        }
    }
}
