//! Bytes that will be needed soon are brought nearer to the processor.

/// What processors bring into their caches at once, in bytes.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// No more than this is brought of one value, in bytes: processors guess what follows.
#[cfg(target_arch = "x86_64")]
const MOST: usize = 512;

/// Lets the processor begin to bring a value into its caches, where it knows how to be told.
#[inline]
pub fn approach<T>(value: &T) {
    approach_at(std::ptr::from_ref(value));
}

/// Lets it bring a value that need not be there: nothing happens then.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn approach_at<T>(value: *const T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in (0..size_of::<T>().min(MOST)).step_by(LINE) {
        // SAFETY: it changes nothing that a program can see, whatever is at the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(value.cast::<i8>().wrapping_add(line)) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn approach_at<T>(_value: *const T) {}
