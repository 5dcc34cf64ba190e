//! Bytes at an address, near or far, used by many threads at once.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes at an address. Whoever has one has seen to it that they stay mapped, and uses what is its own.
#[derive(Clone, Copy)]
pub(super) struct Bytes {
    start: usize,
    len: usize,
}

impl Bytes {
    /// # Safety
    ///
    /// The bytes stay mapped as long as this or a copy of it is used, and are used in no other way meanwhile.
    pub(super) unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self { start: start as usize, len }
    }

    pub(super) fn len(self) -> usize {
        self.len
    }

    /// Where a byte is, for system calls.
    pub(super) fn address(self, at: usize) -> *mut core::ffi::c_void {
        self.at(at, 1).cast()
    }

    fn at(self, at: usize, len: usize) -> *mut u8 {
        assert!(at + len <= self.len, "{len} bytes at {at} of {}", self.len);
        (self.start + at) as *mut u8
    }

    /// Adds to a word that many threads add to.
    pub(super) fn add(self, at: usize, addend: u64) {
        let word = self.at(at, 8).cast::<u64>();
        assert!(word.is_aligned());
        // SAFETY: inside the bytes, aligned, and used by atomics alone.
        unsafe { AtomicU64::from_ptr(word) }.fetch_add(addend, Ordering::Relaxed);
    }

    /// Writes to bytes of this thread's.
    pub(super) fn write(self, at: usize, from: &[u8]) {
        // SAFETY: inside the bytes, and no other thread uses them.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.at(at, from.len()), from.len()) }
    }

    /// Reads bytes of this thread's.
    pub(super) fn read(self, at: usize, into: &mut [u8]) {
        // SAFETY: inside the bytes, and no other thread writes them.
        unsafe { ptr::copy_nonoverlapping(self.at(at, into.len()), into.as_mut_ptr(), into.len()) }
    }

    /// Touches a byte that others may be writing.
    pub(super) fn touch(self, at: usize) {
        // SAFETY: inside the bytes; what the byte is does not matter.
        unsafe { self.at(at, 1).read_volatile() };
    }

    /// Copies bytes of this thread's to others of its own, which may overlap.
    pub(super) fn copy(self, from: usize, to: Self, at: usize, len: usize) {
        // SAFETY: both inside their bytes, and no other thread uses them.
        unsafe { ptr::copy(self.at(from, len), to.at(at, len), len) }
    }
}
