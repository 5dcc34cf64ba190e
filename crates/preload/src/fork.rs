//! What happens when the program forks.
//!
//! All locks of this library are taken before and given back after, on both sides, so that none stays taken in the child by a
//! thread that it does not have. A child gets no far memory of its own: what it allocates is ordinary memory, and what its parent
//! had in far memory it may use as far as the library lets it. `vfork` and `posix_spawn` run no handlers and need none: their child
//! uses its parent's memory, whose fault threads go on.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::calls;
use crate::far;
use crate::heap;
use crate::ledger::{self, Count};
use crate::malloc;

/// The signals that were blocked before.
static MASK: AtomicU64 = AtomicU64::new(0);

/// Has this done at every fork. It comes before far memory is opened: then the handlers of that run while no lock is held here.
pub(crate) fn prepare() -> bool {
    // SAFETY: the handlers are functions of this library, which stays loaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) == 0 }
}

unsafe extern "C" fn before() {
    // A handler of a signal that touches far memory would wait for a thread that waits for one of these locks.
    MASK.store(heap::block_signals(), Ordering::Relaxed);
    malloc::hold();
    calls::hold();
    heap::hold();
}

fn let_go() {
    heap::release();
    calls::release();
    malloc::release();
    heap::restore_signals(MASK.load(Ordering::Relaxed));
}

unsafe extern "C" fn in_parent() {
    let_go();
    ledger::count(Count::Forks, 1);
}

unsafe extern "C" fn in_child() {
    far::fork();
    ledger::leave();
    let_go();
}
