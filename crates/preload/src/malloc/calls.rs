//! The functions of the C library's allocator, under their names.
//!
//! Each begins with a few instructions that note who called: what the dynamic linker and the C library allocate for themselves
//! stays in ordinary memory (`origin`).

use core::arch::naked_asm;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering;

use super::{IS_ON, blocks};
use crate::far::{self, Far};
use crate::next::{self, KeptErrno, set_errno};
use crate::origin;

/// Goes on in another function, with the address that this one was called from behind its own arguments.
macro_rules! noting_the_caller {
    ($(#[$about:meta])* $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? => $inner:ident, $x86:literal, $arm:literal) => {
        $(#[$about])*
        ///
        /// # Safety
        ///
        /// As for the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[cfg_attr(test, unsafe(export_name = concat!("tested_", stringify!($name))))]
        #[unsafe(naked)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            naked_asm!(concat!("mov ", $x86, ", [rsp]"), "jmp {inner}", inner = sym $inner);
            #[cfg(target_arch = "aarch64")]
            naked_asm!(concat!("mov ", $arm, ", x30"), "b {inner}", inner = sym $inner);
        }
    };
}

noting_the_caller!(
    /// Takes a block.
    malloc(bytes: usize) -> *mut c_void => malloc_for, "rsi", "x1"
);
noting_the_caller!(
    /// Takes a block full of zeros.
    calloc(count: usize, bytes: usize) -> *mut c_void => calloc_for, "rdx", "x2"
);
noting_the_caller!(
    /// Makes a block longer or shorter.
    realloc(block: *mut c_void, bytes: usize) -> *mut c_void => realloc_for, "rdx", "x2"
);
noting_the_caller!(
    /// Makes an array longer or shorter.
    reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void => reallocarray_for, "rcx", "x3"
);
noting_the_caller!(
    /// Takes a block at a multiple of `align`.
    memalign(align: usize, bytes: usize) -> *mut c_void => memalign_for, "rdx", "x2"
);
noting_the_caller!(
    /// Takes a block at a multiple of `align`.
    aligned_alloc(align: usize, bytes: usize) -> *mut c_void => memalign_for, "rdx", "x2"
);
noting_the_caller!(
    /// Takes a block at a multiple of `align`.
    posix_memalign(place: *mut *mut c_void, align: usize, bytes: usize) -> c_int => posix_memalign_for, "rcx", "x3"
);

/// The far memory for a block that is asked for at an address, if it is to be far.
#[inline]
fn far_for(caller: usize) -> Option<&'static Far> {
    if !IS_ON.load(Ordering::Relaxed) || origin::is_inner(caller) {
        return None;
    }
    far::get()
}

fn answer(block: Option<usize>) -> *mut c_void {
    match block {
        Some(block) => block as *mut c_void,
        None => {
            set_errno(libc::ENOMEM);
            ptr::null_mut()
        }
    }
}

extern "C" fn malloc_for(bytes: usize, caller: usize) -> *mut c_void {
    match far_for(caller) {
        Some(far) => answer(blocks::alloc(far, bytes)),
        None => next::malloc(bytes),
    }
}

extern "C" fn calloc_for(count: usize, bytes: usize, caller: usize) -> *mut c_void {
    let Some(all) = count.checked_mul(bytes) else { return answer(None) };
    match far_for(caller) {
        Some(far) => answer(blocks::alloc_zeroed(far, all)),
        None => next::calloc(count, bytes),
    }
}

unsafe extern "C" fn realloc_for(block: *mut c_void, bytes: usize, caller: usize) -> *mut c_void {
    if block.is_null() {
        return malloc_for(bytes, caller);
    }
    if !super::has(block.addr()) {
        // SAFETY: by the contract of this function; it came from the allocator behind this library.
        return unsafe { next::realloc(block, bytes) };
    }
    if bytes == 0 {
        // SAFETY: by the contract of this function.
        unsafe { free(block) };
        return ptr::null_mut();
    }
    match far::get() {
        Some(far) => answer(blocks::realloc(far, block.addr(), bytes)),
        // A child that was forked leaves its parent's blocks where they are, and how long they are is still known.
        None => {
            let moved = next::malloc(bytes);
            if !moved.is_null() {
                let had = known_size(block.addr());
                // SAFETY: both blocks have as many bytes, and are different ones.
                unsafe { ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast(), had.min(bytes)) };
            }
            moved
        }
    }
}

unsafe extern "C" fn reallocarray_for(
    block: *mut c_void,
    count: usize,
    bytes: usize,
    caller: usize,
) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: by the contract of this function.
        Some(all) => unsafe { realloc_for(block, all, caller) },
        None => answer(None),
    }
}

extern "C" fn memalign_for(align: usize, bytes: usize, caller: usize) -> *mut c_void {
    match far_for(caller) {
        Some(far) => {
            let Some(align) = align.max(1).checked_next_power_of_two() else { return answer(None) };
            answer(blocks::alloc_aligned(far, align, bytes))
        }
        None => next::memalign(align, bytes),
    }
}

unsafe extern "C" fn posix_memalign_for(
    place: *mut *mut c_void,
    align: usize,
    bytes: usize,
    caller: usize,
) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    let kept = KeptErrno::new();
    let block = memalign_for(align, bytes, caller);
    drop(kept);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: by the contract of the function: the place is the caller's.
    unsafe { place.write(block) };
    0
}

/// Takes a block of whole pages.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_valloc"))]
pub(crate) unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    memalign_for(far::PAGE, bytes, 0)
}

/// Takes a block of whole pages, rounded up to them.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_pvalloc"))]
pub(crate) unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    match bytes.checked_next_multiple_of(far::PAGE) {
        Some(bytes) => memalign_for(far::PAGE, bytes, 0),
        None => answer(None),
    }
}

/// Gives a block back.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_free"))]
pub(crate) unsafe extern "C" fn free(block: *mut c_void) {
    if !super::has(block.addr()) {
        // SAFETY: by the contract of this function; it came from the allocator behind this library.
        return unsafe { next::free(block) };
    }
    // A child that was forked leaves its parent's blocks where they are.
    if let Some(far) = far::get() {
        let _kept = KeptErrno::new();
        blocks::free(far, block.addr());
    }
}

/// How many bytes a block has.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_malloc_usable_size"))]
pub(crate) unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() {
        return 0;
    }
    if super::has(block.addr()) {
        return known_size(block.addr());
    }
    // SAFETY: by the contract of this function.
    unsafe { next::usable_size(block) }
}

/// How many bytes a far block has, in children that were forked too.
fn known_size(block: usize) -> usize {
    far::any().map_or(0, |far| blocks::usable(far, block))
}

/// Gives memory back that is not needed.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_malloc_trim"))]
pub(crate) extern "C" fn malloc_trim(_pad: usize) -> c_int {
    match far::get() {
        Some(far) => {
            let _kept = KeptErrno::new();
            super::trim(far);
            1
        }
        None => 0,
    }
}

/// Copies a text into a block of the program's own.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_strdup"))]
pub(crate) unsafe extern "C" fn strdup(text: *const u8) -> *mut c_void {
    // SAFETY: by the contract of this function.
    unsafe { strndup(text, usize::MAX) }
}

/// Copies the beginning of a text into a block of the program's own.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested_strndup"))]
pub(crate) unsafe extern "C" fn strndup(text: *const u8, most: usize) -> *mut c_void {
    // SAFETY: by the contract of this function.
    let len = unsafe { libc::strnlen(text.cast(), most) };
    let copy = malloc_for(len + 1, 0);
    if !copy.is_null() {
        let copy = copy.cast::<u8>();
        // SAFETY: the block has a byte more than the text is long.
        unsafe {
            ptr::copy_nonoverlapping(text, copy, len);
            copy.add(len).write(0);
        }
    }
    copy
}
