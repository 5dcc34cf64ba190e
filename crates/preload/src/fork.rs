//! What happens when the program forks.
//!
//! All locks of this library are taken before and given back after, on both sides, so that none stays taken in the child by a
//! thread that it does not have. A child has its parent's far memory as it was at the fork (`Children::Snapshot`), and gets no more:
//! what it allocates is ordinary memory. `vfork` and `posix_spawn` run no handlers and need none: their child
//! uses its parent's memory, whose fault threads go on.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::calls;
use crate::far;
use crate::heap;
use crate::ledger::{self, Count};
use crate::malloc;

/// The signals that were blocked before.
static MASK: AtomicU64 = AtomicU64::new(0);

/// Has the library's own heap held at every fork. This comes before far memory is opened: the handlers of that allocate, and run while
/// the heap is not held.
pub(crate) fn prepare_heap() -> bool {
    // SAFETY: the handlers are functions of this library, which stays loaded.
    unsafe { libc::pthread_atfork(Some(before_heap), Some(after_heap), Some(after_heap)) == 0 }
}

/// Has the other locks held at every fork. This comes after far memory is opened: so they are taken before the pager stands still,
/// and no thread that has one of them waits for it.
pub(crate) fn prepare() -> bool {
    // SAFETY: as above.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) == 0 }
}

unsafe extern "C" fn before_heap() {
    heap::hold();
}

unsafe extern "C" fn after_heap() {
    heap::release();
}

unsafe extern "C" fn before() {
    // A handler of a signal that touches far memory would wait for a thread that waits for one of these locks.
    MASK.store(heap::block_signals(), Ordering::Relaxed);
    malloc::hold();
    calls::hold();
}

fn let_go() {
    calls::release();
    malloc::release();
    heap::restore_signals(MASK.load(Ordering::Relaxed));
}

unsafe extern "C" fn in_parent() {
    let_go();
    ledger::count(Count::Forks, 1);
}

unsafe extern "C" fn in_child() {
    // Far memory is this child's already: handlers run in the order in which they were named.
    far::fork();
    ledger::leave();
    let_go();
}
