//! What happens when the program forks.
//!
//! All locks of this library are taken before and given back after, on both sides, so that none stays taken in the child by a
//! thread that it does not have. A child has its parent's far memory as it was at the fork (`Children::Snapshot`), and gets no more:
//! what it allocates is ordinary memory. `vfork` and `posix_spawn` run no handlers and need none: their child uses its parent's
//! memory, whose fault threads go on.
//!
//! The program and its libraries have handlers of fork too, and what those touch may be far. So those of this library run last
//! before the fork, when nothing of the program needs far memory any more, and first after it: before the child has its
//! userfaultfd, absent pages would be zeros to it. Handlers run in the order in which they were named, and before a fork in the
//! reverse one: this library sees each of them being named, and is the first to name its own.

use core::ffi::{c_int, c_void};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::calls;
use crate::far;
use crate::heap;
use crate::ledger::{self, Count};
use crate::malloc;
use crate::start::say;

type Handler = Option<unsafe extern "C" fn()>;
type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;

/// The signals that were blocked before.
static MASK: AtomicU64 = AtomicU64::new(0);
/// Whether the handlers of this library are named.
static IS_NAMED: AtomicBool = AtomicBool::new(false);
/// Handlers that are named now are those of far memory, and run with this library's.
static IS_OPENING: AtomicBool = AtomicBool::new(false);
/// The handlers of far memory: before the fork, after it, and in the child.
static FAR: [AtomicPtr<c_void>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];
/// The C library's function by which handlers are named.
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn next() -> Option<Register> {
    let mut next = NEXT.load(Ordering::Relaxed);
    if next == 0 {
        // SAFETY: the name ends with zero.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__register_atfork".as_ptr()) }.addr();
        NEXT.store(next, Ordering::Relaxed);
    }
    // SAFETY: glibc's function of this name is such a one, or there is none.
    unsafe { mem::transmute::<usize, Option<Register>>(next) }
}

/// Has the handlers of this library run at every fork, unless that was done before.
fn name_own() -> bool {
    if IS_NAMED.swap(true, Ordering::AcqRel) {
        return true;
    }
    // SAFETY: the handlers are functions of this library, which stays loaded.
    next().is_some_and(|next| unsafe {
        next(Some(before), Some(in_parent), Some(in_child), ptr::null_mut()) == 0
    })
}

/// What `pthread_atfork` calls, in programs, in their libraries and in this one.
///
/// # Safety
///
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[cfg_attr(test, unsafe(export_name = "tested___register_atfork"))]
pub(crate) unsafe extern "C" fn __register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    object: *mut c_void,
) -> c_int {
    if IS_OPENING.load(Ordering::Acquire) {
        for (place, handler) in FAR.iter().zip([prepare, parent, child]) {
            place.store(handler.map_or(ptr::null_mut(), |handler| handler as *mut c_void), Ordering::Release);
        }
        return 0;
    }
    match next() {
        // SAFETY: by the contract of this function.
        Some(next) if name_own() => unsafe { next(prepare, parent, child, object) },
        _ => libc::ENOMEM,
    }
}

/// Opens far memory, whose handlers run with those of this library.
pub(crate) fn opening<T>(open: impl FnOnce() -> T) -> Option<T> {
    if !name_own() {
        return None;
    }
    IS_OPENING.store(true, Ordering::Release);
    let opened = open();
    IS_OPENING.store(false, Ordering::Release);
    Some(opened)
}

/// Runs a handler of far memory, if it has named one.
fn run(number: usize) {
    let handler = FAR[number].load(Ordering::Acquire);
    // SAFETY: null, or a handler that was named.
    let handler = unsafe { mem::transmute::<*mut c_void, Handler>(handler) };
    if let Some(handler) = handler {
        // SAFETY: it is called where the C library would call it.
        unsafe { handler() };
    }
}

unsafe extern "C" fn before() {
    // A handler of a signal that touches far memory would wait for a thread that waits for one of these locks.
    MASK.store(heap::block_signals(), Ordering::Relaxed);
    // While the pager goes on, and no thread that has one of them waits for it.
    malloc::hold();
    calls::hold();
    // It allocates from the library's own heap.
    run(0);
    heap::hold();
}

fn let_go() {
    calls::release();
    malloc::release();
    heap::restore_signals(MASK.load(Ordering::Relaxed));
}

unsafe extern "C" fn in_parent() {
    heap::release();
    run(1);
    let_go();
    ledger::count(Count::Forks, 1);
}

unsafe extern "C" fn in_child() {
    heap::release();
    run(2);
    let has_far = far::fork();
    ledger::leave();
    let_go();
    if !has_far {
        say(
            "a child of a forked child has no far memory, and ends when it touches what was far: docs/any-program.md says what helps",
        );
    }
}
