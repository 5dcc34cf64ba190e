//! Memory that is needed soon.

/// Has the processor fetch an element that will be written soon. One that does not exist does no harm.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T], index: usize) {
    let place = slice.as_ptr().wrapping_add(index);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which never faults and changes nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a hint, which never faults and changes nothing, whatever the address.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}
