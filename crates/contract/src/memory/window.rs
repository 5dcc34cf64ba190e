//! Bounded views of memory that others may be changing.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::copy::{copy_between_shared, copy_from_shared, copy_to_shared};

/// A range of memory to read from, which another process may be changing.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    start: NonNull<u8>,
    len: usize,
    life: PhantomData<&'a ()>,
}

/// A range of memory to write to, which another process may be reading or changing.
pub struct WindowMut<'a> {
    start: NonNull<u8>,
    len: usize,
    life: PhantomData<&'a ()>,
}

// SAFETY: a window is an address and a length; every access to what lies there goes through copies that are
// sound beside any other access.
unsafe impl Send for Window<'_> {}
// SAFETY: as above.
unsafe impl Send for WindowMut<'_> {}

#[inline]
#[track_caller]
fn check(offset: usize, len: usize, size: usize) {
    if offset.checked_add(len).is_none_or(|end| end > size) {
        outside(offset, len, size);
    }
}

#[cold]
#[track_caller]
fn outside(offset: usize, len: usize, size: usize) -> ! {
    panic!("bytes {offset}..+{len} are outside a window of {size}");
}

impl<'a> Window<'a> {
    /// A window on `len` bytes at `start`.
    ///
    /// # Safety
    /// The bytes stay mapped and readable for `'a`, and no `&mut` to them exists meanwhile.
    #[inline]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, life: PhantomData }
    }

    /// How many bytes it shows.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it shows none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `into.len()` bytes from `offset`.
    ///
    /// # Panics
    /// If they are not all inside the window.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        check(offset, into.len(), self.len);
        // SAFETY: the span is inside the window, and `into` is exclusively ours.
        unsafe { copy_from_shared(self.start.as_ptr().add(offset), into.as_mut_ptr(), into.len()) }
    }

    /// Copies the whole window into `into` at its start.
    ///
    /// # Panics
    /// If `into` is shorter, or the two overlap.
    #[inline]
    pub fn read_into(&self, into: &mut WindowMut<'_>) {
        into.write_window(0, *self);
    }

    /// Copies the `N` bytes at `offset`.
    ///
    /// # Panics
    /// If they are not all inside the window.
    #[inline]
    pub fn array<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut bytes = [0; N];
        self.read(offset, &mut bytes);
        bytes
    }

    /// The little-endian word at `offset`.
    ///
    /// # Panics
    /// If it is not inside the window.
    #[inline]
    pub fn word(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.array(offset))
    }

    /// The first `count` words, each loaded whole, in the byte order of this machine.
    ///
    /// # Panics
    /// If they are not all inside the window, or not aligned.
    #[inline]
    pub fn words(&self, count: usize) -> impl Iterator<Item = u64> + use<'a> {
        check(0, count.saturating_mul(8), self.len);
        let start = self.start.cast::<u64>();
        assert!(start.is_aligned(), "words that are not aligned");
        // SAFETY: inside the window and aligned; an atomic load is sound beside any other access.
        (0..count).map(move |at| unsafe { AtomicU64::from_ptr(start.add(at).as_ptr()).load(Relaxed) })
    }

    /// A copy of everything.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.read(0, &mut bytes);
        bytes
    }

    /// The part of `len` bytes from `offset`.
    ///
    /// # Panics
    /// If it is not inside the window.
    #[inline]
    pub fn part(&self, offset: usize, len: usize) -> Window<'a> {
        check(offset, len, self.len);
        // SAFETY: inside the window, so still inside the allocation.
        Self { start: unsafe { self.start.add(offset) }, len, life: PhantomData }
    }

    /// Where it begins.
    #[inline]
    pub const fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }
}

impl<'a> From<&'a [u8]> for Window<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self { start: NonNull::from(bytes).cast(), len: bytes.len(), life: PhantomData }
    }
}

impl<'a> WindowMut<'a> {
    /// A window on `len` bytes at `start`.
    ///
    /// # Safety
    /// The bytes stay mapped and writable for `'a`, and no reference to them exists meanwhile.
    #[inline]
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len, life: PhantomData }
    }

    /// How many bytes it covers.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether it covers none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If they do not all fit inside the window.
    #[inline]
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        check(offset, bytes.len(), self.len);
        // SAFETY: the span is inside the window, and no thread writes to `bytes` while we hold the reference.
        unsafe { copy_to_shared(bytes.as_ptr(), self.start.as_ptr().add(offset), bytes.len()) }
    }

    /// Copies `data` to `offset`.
    ///
    /// # Panics
    /// If it does not fit inside the window, or overlaps with where it goes.
    #[inline]
    pub fn write_window(&mut self, offset: usize, data: Window<'_>) {
        check(offset, data.len, self.len);
        let (from, to) = (data.start.addr().get(), self.start.addr().get() + offset);
        assert!(from + data.len <= to || to + data.len <= from, "a window is copied onto itself");
        // SAFETY: both spans are inside their windows and do not overlap.
        unsafe { copy_between_shared(data.as_ptr(), self.start.as_ptr().add(offset), data.len) }
    }

    /// Stores a little-endian word at `offset`.
    ///
    /// # Panics
    /// If it is not inside the window.
    #[inline]
    pub fn set_word(&mut self, offset: usize, word: u64) {
        self.write(offset, &word.to_le_bytes());
    }

    /// These bytes, to read.
    #[inline]
    pub const fn as_window(&self) -> Window<'_> {
        Window { start: self.start, len: self.len, life: PhantomData }
    }

    /// The part of `len` bytes from `offset`.
    ///
    /// # Panics
    /// If it is not inside the window.
    #[inline]
    pub fn part(self, offset: usize, len: usize) -> WindowMut<'a> {
        check(offset, len, self.len);
        // SAFETY: inside the window, so still inside the allocation.
        Self { start: unsafe { self.start.add(offset) }, len, life: PhantomData }
    }

    /// Where it begins. For code that fills a whole bundle under one check of its own.
    #[inline]
    pub const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl fmt::Debug for Window<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({} bytes)", self.len)
    }
}

impl fmt::Debug for WindowMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WindowMut({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_was_written_and_nothing_beyond() {
        let mut bytes = [0u8; 32];
        let start = NonNull::from(&mut bytes[..]).cast();
        // SAFETY: `bytes` outlives the window and is not otherwise used meanwhile.
        let mut window = unsafe { WindowMut::new(start, 32) };
        window.write(3, b"outboard");
        window.set_word(16, 0x0102_0304_0506_0708);
        assert_eq!(&window.as_window().array::<8>(3), b"outboard");
        assert_eq!(window.as_window().part(16, 8).word(0), 0x0102_0304_0506_0708);
        assert_eq!(window.as_window().to_vec()[11..16], [0; 5]);
    }

    #[test]
    #[should_panic(expected = "copied onto itself")]
    fn a_window_is_not_copied_onto_itself() {
        let buffer = crate::memory::Buffer::allocate(4096).unwrap();
        buffer.window_mut().write_window(8, buffer.window().part(0, 16));
    }

    #[test]
    #[should_panic(expected = "outside a window of 4")]
    fn a_span_that_overflows_is_outside() {
        Window::from(&[1u8, 2, 3, 4][..]).part(usize::MAX, 2);
    }
}
