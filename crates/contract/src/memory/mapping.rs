//! Memory that is mapped here and that other processes may see.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

use super::{Window, WindowMut};

/// What may be done through a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentAccess {
    /// Loads only; a store faults.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// Bytes of a memory file, mapped as long as it lives.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    access: SegmentAccess,
}

// SAFETY: the memory is only ever touched through windows and atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes over the `len` bytes that are mapped at `start`, and unmaps them in the end.
    ///
    /// # Safety
    /// `start` is the beginning of a mapping of `len` bytes that nothing else unmaps or makes references to, and that allows
    /// what `access` says.
    pub unsafe fn new(start: NonNull<u8>, len: usize, access: SegmentAccess) -> Self {
        Self { start, len, access }
    }

    /// What may be done through it.
    #[inline]
    pub fn access(&self) -> SegmentAccess {
        self.access
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is mapped to write.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.access == SegmentAccess::ReadWrite
    }

    /// Where it is mapped.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The `len` bytes from `offset`, to read.
    ///
    /// # Panics
    /// If they are not inside the segment.
    #[inline]
    pub fn window(&self, offset: usize, len: usize) -> Window<'_> {
        // SAFETY: mapped as long as `self`, and no references to it are ever made.
        unsafe { Window::new(self.start, self.len) }.part(offset, len)
    }

    /// The `len` bytes from `offset`, to write.
    ///
    /// # Panics
    /// If they are not inside the segment, or it is mapped to read only.
    #[inline]
    pub fn window_mut(&self, offset: usize, len: usize) -> WindowMut<'_> {
        assert_eq!(self.access, SegmentAccess::ReadWrite, "the segment is mapped to read only");
        // SAFETY: mapped writable as long as `self`, and no references to it are ever made.
        unsafe { WindowMut::new(self.start, self.len) }.part(offset, len)
    }

    /// The word at `offset`.
    ///
    /// # Panics
    /// If it is not an aligned word inside the segment, or the segment is mapped to read only.
    #[inline]
    pub fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && self.len >= 8 && offset <= self.len - 8, "no word at {offset}");
        assert_eq!(self.access, SegmentAccess::ReadWrite, "the segment is mapped to read only");
        // SAFETY: inside the mapping, aligned, and shared memory may be used through atomics.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and no window exists any more. A failure could only mean that
        // it is not mapped, and then there is nothing to give back.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast::<c_void>(), self.len) };
    }
}
