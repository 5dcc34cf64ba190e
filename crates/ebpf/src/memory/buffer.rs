//! Bytes that native addresses may point to while they are also read and written as slices.
//!
//! A `Vec` would not do: to borrow it is to promise that no pointer made before is used afterwards, and the table
//! of areas keeps such pointers for a whole run.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::MemoryArea;

/// A buffer that keeps its allocation when it shrinks.
#[derive(Debug)]
pub(super) struct Buffer {
    start: NonNull<u8>,
    length: usize,
    capacity: usize,
}

/// Wide loads of what a program has are as fast as they can be.
const ALIGNMENT: usize = 16;

// SAFETY: it owns its allocation alone.
unsafe impl Send for Buffer {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for Buffer {}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer { start: NonNull::dangling(), length: 0, capacity: 0 }
    }
}

impl Buffer {
    pub(super) fn zeroed(length: usize) -> Buffer {
        let mut buffer = Buffer::default();
        buffer.resize_uncleared(length);
        buffer
    }

    fn layout(capacity: usize) -> Layout {
        // Cannot fail: `ProgramLimits::LONGEST` is far below what a layout can hold.
        Layout::from_size_align(capacity, ALIGNMENT).expect("lengths are limited")
    }

    /// Makes it this long. What is in it is whatever was there before, or zeros.
    #[inline]
    pub(super) fn resize_uncleared(&mut self, length: usize) -> &mut [u8] {
        if length > self.capacity {
            self.replace(length);
        }
        self.length = length;
        self.bytes_mut()
    }

    #[cold]
    fn replace(&mut self, capacity: usize) {
        let layout = Self::layout(capacity);
        // SAFETY: the layout is not empty, because the capacity grows.
        let start = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { handle_alloc_error(layout) };
        self.free();
        (self.start, self.capacity) = (start, capacity);
    }

    fn free(&mut self) {
        if self.capacity > 0 {
            // SAFETY: it was allocated with this layout by `replace`, and is not used afterwards.
            unsafe { dealloc(self.start.as_ptr(), Self::layout(self.capacity)) };
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: so many bytes were allocated and initialised, or none are claimed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }

    #[inline]
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and the allocation is owned by `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }

    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// All of it, to be read and written.
    pub(super) fn area(&self) -> MemoryArea {
        MemoryArea { base: self.as_ptr(), readable: self.length as u32, writable: self.length as u32 }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.free();
    }
}
