//! The allocator behind this library: that of the C library, or another that the program has brought.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// Which it is.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
/// It is being looked for, which may allocate.
const SEARCHED: u8 = 1;
const C_LIBRARY: u8 = 2;
const FOREIGN: u8 = 3;

/// The functions of another allocator, in the order of `NAMES`.
static FOREIGN_FUNCTIONS: [AtomicUsize; NAMES.len()] = [const { AtomicUsize::new(0) }; NAMES.len()];
const NAMES: [&CStr; 7] =
    [c"malloc", c"calloc", c"realloc", c"memalign", c"free", c"malloc_usable_size", c"aligned_alloc"];

/// What is taken while the other allocator is looked for. It is never given back.
static EARLY: Early = Early([const { AtomicUsize::new(0) }; 512]);
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);

/// Words, as blocks are aligned.
#[repr(align(16))]
struct Early([AtomicUsize; 512]);

/// Whether the program has no allocator but the C library's.
pub(crate) fn is_c_library() -> bool {
    find() == C_LIBRARY
}

#[inline]
fn find() -> u8 {
    match STATE.load(Ordering::Acquire) {
        UNKNOWN => search(),
        state => state,
    }
}

#[cold]
fn search() -> u8 {
    if STATE.compare_exchange(UNKNOWN, SEARCHED, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return STATE.load(Ordering::Acquire);
    }
    // SAFETY: the names end with zero. The next object that has the name is behind this library.
    let next = |name: &CStr| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize };
    let object = |address: usize| {
        // SAFETY: a zeroed description is one.
        let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: fills the description.
        let found = unsafe { libc::dladdr(address as *const c_void, &raw mut info) };
        (found != 0).then_some(info.dli_fbase as usize)
    };
    let malloc = next(NAMES[0]);
    let is_own = malloc == 0 || object(malloc) == object(__libc_malloc as *const () as usize);
    if !is_own {
        for (place, name) in FOREIGN_FUNCTIONS.iter().zip(NAMES) {
            place.store(next(name), Ordering::Relaxed);
        }
    }
    let state = if is_own { C_LIBRARY } else { FOREIGN };
    STATE.store(state, Ordering::Release);
    state
}

/// A function of the other allocator, if there is one.
fn foreign(number: usize) -> Option<usize> {
    if find() != FOREIGN {
        return None;
    }
    let function = FOREIGN_FUNCTIONS[number].load(Ordering::Relaxed);
    (function != 0).then_some(function)
}

/// Memory for the dynamic linker while it looks for the allocator that it should have asked.
fn early(bytes: usize) -> *mut c_void {
    let words = bytes.div_ceil(16) * 2;
    let at = EARLY_USED.fetch_add(words, Ordering::Relaxed);
    if at + words > EARLY.0.len() {
        return core::ptr::null_mut();
    }
    let start = EARLY.0.as_ptr() as usize;
    (start + at * 8) as *mut c_void
}

fn is_early(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(EARLY.0.as_ptr() as usize) < size_of_val(&EARLY)
}

/// As `malloc`.
pub(crate) fn malloc(bytes: usize) -> *mut c_void {
    if let Some(function) = foreign(0) {
        // SAFETY: the allocator's function of this name.
        let function: extern "C" fn(usize) -> *mut c_void = unsafe { core::mem::transmute(function) };
        return function(bytes);
    }
    // SAFETY: the C library's function does what any allocator does.
    if find() == SEARCHED { early(bytes) } else { unsafe { __libc_malloc(bytes) } }
}

/// As `calloc`.
pub(crate) fn calloc(count: usize, bytes: usize) -> *mut c_void {
    if let Some(function) = foreign(1) {
        // SAFETY: the allocator's function of this name.
        let function: extern "C" fn(usize, usize) -> *mut c_void = unsafe { core::mem::transmute(function) };
        return function(count, bytes);
    }
    if find() == SEARCHED {
        // Nothing was there before.
        return count.checked_mul(bytes).map_or(core::ptr::null_mut(), early);
    }
    // SAFETY: the C library's function does what any allocator does.
    unsafe { __libc_calloc(count, bytes) }
}

/// As `realloc`.
///
/// # Safety
///
/// The block came from here, and was not freed.
pub(crate) unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if is_early(block) {
        let moved = malloc(bytes);
        if !moved.is_null() {
            let left = EARLY.0.as_ptr() as usize + size_of_val(&EARLY) - block as usize;
            // SAFETY: the early memory goes on for as long, and the new block is another.
            unsafe { moved.cast::<u8>().copy_from_nonoverlapping(block.cast(), bytes.min(left)) };
        }
        return moved;
    }
    if let Some(function) = foreign(2) {
        // SAFETY: the allocator's function of this name; the rest is the contract of this function.
        let function: extern "C" fn(*mut c_void, usize) -> *mut c_void =
            unsafe { core::mem::transmute(function) };
        return function(block, bytes);
    }
    // SAFETY: by the contract of this function.
    unsafe { __libc_realloc(block, bytes) }
}

/// As `memalign`.
pub(crate) fn memalign(align: usize, bytes: usize) -> *mut c_void {
    if let Some(function) = foreign(3).or_else(|| foreign(6)) {
        // SAFETY: the allocator's function of this name.
        let function: extern "C" fn(usize, usize) -> *mut c_void = unsafe { core::mem::transmute(function) };
        return function(align, bytes);
    }
    // SAFETY: the C library's function does what any allocator does.
    unsafe { __libc_memalign(align, bytes) }
}

/// As `free`.
///
/// # Safety
///
/// The block came from here, and nothing uses it.
pub(crate) unsafe fn free(block: *mut c_void) {
    if block.is_null() || is_early(block) {
        return;
    }
    if let Some(function) = foreign(4) {
        // SAFETY: the allocator's function of this name; the rest is the contract of this function.
        let function: extern "C" fn(*mut c_void) = unsafe { core::mem::transmute(function) };
        return function(block);
    }
    // SAFETY: by the contract of this function.
    unsafe { __libc_free(block) }
}

/// As `malloc_usable_size`.
///
/// # Safety
///
/// The block came from here, and was not freed.
pub(crate) unsafe fn usable_size(block: *mut c_void) -> usize {
    if is_early(block) {
        return 0;
    }
    let function = match find() {
        FOREIGN => foreign(5).unwrap_or(0),
        _ => {
            static OWN: AtomicUsize = AtomicUsize::new(0);
            let known = OWN.load(Ordering::Relaxed);
            if known != 0 {
                known
            } else {
                // SAFETY: the name ends with zero.
                let found = unsafe { libc::dlsym(libc::RTLD_NEXT, NAMES[5].as_ptr()) as usize };
                OWN.store(found, Ordering::Relaxed);
                found
            }
        }
    };
    if function == 0 {
        return 0;
    }
    // SAFETY: the allocator's function of this name; the rest is the contract of this function.
    let function: extern "C" fn(*mut c_void) -> usize = unsafe { core::mem::transmute(function) };
    function(block)
}

/// The number of the error that the C library has noted for this thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: the place is this thread's.
    unsafe { *libc::__errno_location() }
}

/// Notes an error for this thread.
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the place is this thread's.
    unsafe { *libc::__errno_location() = errno }
}

/// What was noted for this thread is noted again at the end: a call that succeeds leaves it alone.
pub(crate) struct KeptErrno(c_int);

impl KeptErrno {
    pub(crate) fn new() -> Self {
        Self(errno())
    }
}

impl Drop for KeptErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}
