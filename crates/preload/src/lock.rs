//! A lock without memory of its own, which can be taken in one function and given back in another, as handlers of fork have to.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::futex;

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and perhaps waited for.
const WANTED: u32 = 2;
/// How often a thread looks before it sleeps.
const LOOKS: u32 = 100;

/// A value that one thread at a time may use.
pub(crate) struct Lock<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is handed from thread to thread, one at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits until no other thread has it.
    pub(crate) fn lock(&self) -> Held<'_, T> {
        self.hold();
        Held { lock: self }
    }

    /// Waits until no other thread has it, and keeps it until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        for _ in 0..LOOKS {
            if self.state.compare_exchange_weak(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            core::hint::spin_loop();
        }
        while self.state.swap(WANTED, Ordering::Acquire) != FREE {
            // It returns early if the state has changed, or for a signal: then it is looked again.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, WANTED, None);
        }
    }

    /// Gives it back.
    pub(crate) fn release(&self) {
        if self.state.swap(FREE, Ordering::Release) == WANTED {
            // Nothing is waited for where this fails.
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
        }
    }
}

/// A lock that this thread has.
pub(crate) struct Held<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has the lock, and `self` is borrowed for this alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        self.lock.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_has_it() {
        static COUNT: Lock<u64> = Lock::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *COUNT.lock() += 1));
            }
        });
        assert_eq!(*COUNT.lock(), 80_000);
    }
}
