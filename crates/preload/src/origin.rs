//! Who calls: the program, or the dynamic linker, the C library and this library for themselves.
//!
//! What those three allocate stays in ordinary memory: the dynamic linker's tables are used by fault threads too, the C library's
//! streams are held locked while they are filled, and a system call may be given their buffers.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Where the code of each of the three begins, and how long it is.
static CODE: [(AtomicUsize, AtomicUsize); 3] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 3];

/// Whether an address is in their code.
#[inline]
pub(crate) fn is_inner(address: usize) -> bool {
    CODE.iter()
        .any(|(start, len)| address.wrapping_sub(start.load(Ordering::Relaxed)) < len.load(Ordering::Relaxed))
}

/// Finds them. Until then none is known.
pub(crate) fn find() {
    unsafe extern "C" {
        fn __libc_malloc(bytes: usize) -> *mut c_void;
    }
    // SAFETY: only asks what the kernel has told this process.
    let linker = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    let addresses = [linker, __libc_malloc as *const () as usize, find as *const () as usize];
    for ((start, len), address) in CODE.iter().zip(addresses) {
        let mut search = Search { address, found: (0, 0) };
        // SAFETY: the function takes what it is given here, and no more of it than `Search`.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
        start.store(search.found.0, Ordering::Relaxed);
        len.store(search.found.1, Ordering::Relaxed);
    }
}

/// For the object that has an address.
struct Search {
    address: usize,
    found: (usize, usize),
}

unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker gives the description of an object, and `find` what it searches for.
    let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the object has so many headers.
    let headers = unsafe { core::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
    let base = object.dlpi_addr as usize;
    let span = |header: &libc::Elf64_Phdr| (base + header.p_vaddr as usize, header.p_memsz as usize);
    let loaded = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let has_it = loaded().map(span).any(|(start, len)| search.address.wrapping_sub(start) < len);
    if has_it && let Some(code) = loaded().find(|header| header.p_flags & libc::PF_X != 0) {
        search.found = span(code);
    }
    i32::from(has_it)
}
