//! The copies that every byte of shared memory goes through.
//!
//! An aligned 8-byte word on the shared side is always moved whole: this is what one-sided access promises.
//! The private side needs no alignment.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// From here on the copy runs in blocks of 64 bytes.
const BLOCK: usize = 64;

/// Copies `len` bytes out of memory that others may be writing.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, they do not overlap, and `dst` belongs to the caller
/// alone.
#[inline]
pub unsafe fn copy_from_shared(src: *const u8, dst: *mut u8, len: usize) {
    let (mut src, mut dst, mut len) = (src, dst, len);
    // SAFETY: every step moves all three by the same amount and stays within `len`; the shared side is only
    // touched by atomics of its own alignment or by the opaque block copy.
    unsafe {
        while len > 0 && !src.addr().is_multiple_of(8) {
            *dst = AtomicU8::from_ptr(src.cast_mut()).load(Relaxed);
            (src, dst, len) = (src.add(1), dst.add(1), len - 1);
        }
        if len >= BLOCK {
            let moved = len & !(BLOCK - 1);
            copy_blocks(src, dst, moved);
            (src, dst, len) = (src.add(moved), dst.add(moved), len - moved);
        }
        while len >= 8 {
            let word = AtomicU64::from_ptr(src.cast_mut().cast()).load(Relaxed);
            dst.cast::<u64>().write_unaligned(word);
            (src, dst, len) = (src.add(8), dst.add(8), len - 8);
        }
        while len > 0 {
            *dst = AtomicU8::from_ptr(src.cast_mut()).load(Relaxed);
            (src, dst, len) = (src.add(1), dst.add(1), len - 1);
        }
    }
}

/// Copies `len` bytes into memory that others may be reading or writing.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, they do not overlap, and no thread writes to `src`
/// meanwhile.
#[inline]
pub unsafe fn copy_to_shared(src: *const u8, dst: *mut u8, len: usize) {
    let (mut src, mut dst, mut len) = (src, dst, len);
    // SAFETY: as in `copy_from_shared`, with the shared side being `dst`.
    unsafe {
        while len > 0 && !dst.addr().is_multiple_of(8) {
            AtomicU8::from_ptr(dst).store(*src, Relaxed);
            (src, dst, len) = (src.add(1), dst.add(1), len - 1);
        }
        if len >= BLOCK {
            let moved = len & !(BLOCK - 1);
            copy_blocks(src, dst, moved);
            (src, dst, len) = (src.add(moved), dst.add(moved), len - moved);
        }
        while len >= 8 {
            let word = src.cast::<u64>().read_unaligned();
            AtomicU64::from_ptr(dst.cast()).store(word, Relaxed);
            (src, dst, len) = (src.add(8), dst.add(8), len - 8);
        }
        while len > 0 {
            AtomicU8::from_ptr(dst).store(*src, Relaxed);
            (src, dst, len) = (src.add(1), dst.add(1), len - 1);
        }
    }
}

/// How much is copied at once where the two sides are not aligned alike.
const BOUNCE: usize = 1 << 10;

/// Copies `len` bytes from memory that others may be writing into memory that others may be reading or writing.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy_between_shared(src: *const u8, dst: *mut u8, len: usize) {
    let (mut src, mut dst, mut len) = (src, dst, len);
    if src.addr() % 8 != dst.addr() % 8 {
        let mut private = [0; BOUNCE];
        while len > 0 {
            let piece = len.min(BOUNCE);
            // SAFETY: both spans have `piece` bytes left, and `private` is ours alone.
            unsafe {
                copy_from_shared(src, private.as_mut_ptr(), piece);
                copy_to_shared(private.as_ptr(), dst, piece);
                (src, dst, len) = (src.add(piece), dst.add(piece), len - piece);
            }
        }
        return;
    }
    // SAFETY: as in `copy_from_shared`; both sides are touched only by atomics of their own alignment or by the
    // opaque block copy, for which both are aligned to 8.
    unsafe {
        let byte = |src: *const u8, dst: *mut u8| {
            let value = AtomicU8::from_ptr(src.cast_mut()).load(Relaxed);
            AtomicU8::from_ptr(dst).store(value, Relaxed);
        };
        while len > 0 && !src.addr().is_multiple_of(8) {
            byte(src, dst);
            (src, dst, len) = (src.add(1), dst.add(1), len - 1);
        }
        if len >= BLOCK {
            let moved = len & !(BLOCK - 1);
            copy_blocks(src, dst, moved);
            (src, dst, len) = (src.add(moved), dst.add(moved), len - moved);
        }
        while len >= 8 {
            let word = AtomicU64::from_ptr(src.cast_mut().cast()).load(Relaxed);
            AtomicU64::from_ptr(dst.cast()).store(word, Relaxed);
            (src, dst, len) = (src.add(8), dst.add(8), len - 8);
        }
        while len > 0 {
            byte(src, dst);
            (src, dst, len) = (src.add(1), dst.add(1), len - 1);
        }
    }
}

/// Copies a positive multiple of [`BLOCK`] bytes; whichever side is aligned to 8 bytes is moved in whole words.
///
/// # Safety
/// As for the functions above; the shared side is aligned to 8 bytes.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn copy_blocks(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the loop reads and writes exactly `len` bytes. An unaligned 16-byte move is split by the
    // processor only at cache-line borders, which are word borders for a side aligned to 8.
    unsafe {
        core::arch::asm!(
            "2:",
            "movups {a}, [{src}]",
            "movups {b}, [{src} + 16]",
            "movups {c}, [{src} + 32]",
            "movups {d}, [{src} + 48]",
            "movups [{dst}], {a}",
            "movups [{dst} + 16], {b}",
            "movups [{dst} + 32], {c}",
            "movups [{dst} + 48], {d}",
            "add {src}, 64",
            "add {dst}, 64",
            "sub {len}, 64",
            "jnz 2b",
            src = inout(reg) src => _,
            dst = inout(reg) dst => _,
            len = inout(reg) len => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// Copies a positive multiple of [`BLOCK`] bytes; whichever side is aligned to 8 bytes is moved in whole words.
///
/// # Safety
/// As for the functions above; the shared side is aligned to 8 bytes.
#[cfg(all(target_arch = "aarch64", not(miri)))]
#[inline]
unsafe fn copy_blocks(src: *const u8, dst: *mut u8, len: usize) {
    // SAFETY: the loop reads and writes exactly `len` bytes, in pairs of 64-bit words; each word is single-copy
    // atomic where it is aligned.
    unsafe {
        core::arch::asm!(
            "2:",
            "ldp {a}, {b}, [{src}]",
            "ldp {c}, {d}, [{src}, #16]",
            "ldp {e}, {f}, [{src}, #32]",
            "ldp {g}, {h}, [{src}, #48]",
            "stp {a}, {b}, [{dst}]",
            "stp {c}, {d}, [{dst}, #16]",
            "stp {e}, {f}, [{dst}, #32]",
            "stp {g}, {h}, [{dst}, #48]",
            "add {src}, {src}, #64",
            "add {dst}, {dst}, #64",
            "subs {len}, {len}, #64",
            "b.ne 2b",
            src = inout(reg) src => _,
            dst = inout(reg) dst => _,
            len = inout(reg) len => _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            e = out(reg) _,
            f = out(reg) _,
            g = out(reg) _,
            h = out(reg) _,
            options(nostack),
        );
    }
}

/// Copies a positive multiple of [`BLOCK`] bytes word by word, for interpreters and other processors.
///
/// # Safety
/// As for the functions above; the shared side is aligned to 8 bytes.
#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
#[inline]
unsafe fn copy_blocks(src: *const u8, dst: *mut u8, len: usize) {
    for offset in (0..len).step_by(8) {
        // SAFETY: within `len`; at least one side is aligned, and only an aligned side is shared.
        unsafe {
            let (src, dst) = (src.add(offset), dst.add(offset));
            let word = if src.addr().is_multiple_of(8) {
                AtomicU64::from_ptr(src.cast_mut().cast()).load(Relaxed)
            } else {
                src.cast::<u64>().read_unaligned()
            };
            if dst.addr().is_multiple_of(8) {
                AtomicU64::from_ptr(dst.cast()).store(word, Relaxed);
            } else {
                dst.cast::<u64>().write_unaligned(word);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_exactly_the_span_at_every_alignment() {
        let source: Vec<u8> = (0..1200u32).map(|i| (i * 7 % 251) as u8).collect();
        // Miri is some hundred times slower than the processor.
        let step = if cfg!(miri) { 31 } else { 1 };
        for len in (0..130).step_by(step).chain([191, 192, 193, 256, 300, 1100]) {
            for (from, to) in (0..9).flat_map(|from| (0..9).map(move |to| (from, to))) {
                for copy in [copy_from_shared, copy_to_shared, copy_between_shared] {
                    let mut target = vec![0xee; 1200];
                    // SAFETY: both spans lie within their vectors.
                    unsafe { copy(source.as_ptr().add(from), target.as_mut_ptr().add(to), len) };
                    assert_eq!(target[to..to + len], source[from..from + len], "{len} bytes {from}->{to}");
                    assert!(target[..to].iter().chain(&target[to + len..]).all(|byte| *byte == 0xee));
                }
            }
        }
    }
}
