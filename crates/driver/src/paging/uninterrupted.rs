//! Work of the application's threads that no signal handler may interrupt.
//!
//! A handler that touches far memory waits for a fault thread. If it has interrupted a thread that holds a lock that
//! fault threads take, they wait for each other.

/// While it lives, signals to this thread wait. A thread that takes locks of fault threads has one.
pub struct Uninterrupted {
    before: libc::sigset_t,
}

impl Uninterrupted {
    /// Lets signals to this thread wait.
    #[expect(clippy::new_without_default, reason = "it is made for what it does, not for its value")]
    pub fn new() -> Self {
        // SAFETY: sets are plain data that the calls below fill.
        let (mut all, mut before) = unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
        // SAFETY: as above; the mask is put back as it was.
        unsafe {
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        }
        Self { before }
    }
}

impl Drop for Uninterrupted {
    fn drop(&mut self) {
        // SAFETY: sets the mask that this thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, core::ptr::null_mut()) };
    }
}

/// Whether this thread lets a signal wait.
pub(super) fn is_blocked_here(signal: libc::c_int) -> bool {
    // SAFETY: a zeroed set is one, and the calls only ask.
    unsafe {
        let mut now = core::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut now);
        libc::sigismember(&raw const now, signal) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_wait_and_come_again() {
        assert!(!is_blocked_here(libc::SIGUSR1));
        let outer = Uninterrupted::new();
        drop(Uninterrupted::new());
        assert!(is_blocked_here(libc::SIGUSR1));
        drop(outer);
        assert!(!is_blocked_here(libc::SIGUSR1));
    }
}
