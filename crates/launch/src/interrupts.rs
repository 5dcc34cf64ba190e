//! The signals by which a user ends a job, as something to wait for.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::pipe::{PipeFlags, pipe_with};
use thiserror::Error;

const CAUGHT: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Made once and never closed: a handler may be on its way to write when the signals are given back.
static PIPE: OnceLock<(OwnedFd, OwnedFd)> = OnceLock::new();
static WRITE_FD: AtomicI32 = AtomicI32::new(-1);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// Catches `SIGINT`, `SIGTERM` and `SIGHUP` for as long as it lives; one at a time in a process.
///
/// A signal that was ignored before (`nohup`) stays ignored. The descriptor is readable while there is a signal
/// to [`take`](Self::take).
#[derive(Debug)]
pub struct Interrupts {
    before: Vec<(i32, Action)>,
}

/// Why signals are not caught.
#[derive(Debug, Error)]
pub enum InterruptError {
    /// They are caught already, by another `Interrupts`.
    #[error("this process already catches interrupts")]
    Installed,
    /// The system refused.
    #[error("cannot catch interrupts")]
    System(#[from] io::Error),
}

impl Interrupts {
    /// Begins to catch.
    pub fn catch() -> Result<Self, InterruptError> {
        if IS_INSTALLED.swap(true, Ordering::AcqRel) {
            return Err(InterruptError::Installed);
        }
        // From here on dropping it undoes what was done.
        let mut this = Self { before: Vec::new() };
        if PIPE.get().is_none() {
            let pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(io::Error::from)?;
            WRITE_FD.store(pipe.1.as_raw_fd(), Ordering::Release);
            // No other thread is here: see IS_INSTALLED.
            let _ = PIPE.set(pipe);
        }
        while this.take().is_some() {}
        for signal in CAUGHT {
            let before = Action::of(signal)?;
            if !before.is_ignore() {
                Action::note().set(signal)?;
                this.before.push((signal, before));
            }
        }
        Ok(this)
    }

    /// The next signal that came, if one did.
    pub fn take(&self) -> Option<i32> {
        let mut signal = [0];
        match rustix::io::read(self.as_fd(), &mut signal) {
            Ok(1) => Some(signal[0].into()),
            _ => None,
        }
    }
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // `catch` filled it before there was a `self` to ask.
        let (read, _) = PIPE.get().expect("the pipe is made before anything is caught");
        read.as_fd()
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            let _ = before.set(*signal);
        }
        IS_INSTALLED.store(false, Ordering::Release);
    }
}

/// Children of a process that ignores `SIGCHLD`, by inheritance perhaps, vanish with their exit codes.
pub(crate) fn let_children_wait() {
    if Action::of(libc::SIGCHLD).is_ok_and(|action| action.is_ignore()) {
        let _ = Action::default().set(libc::SIGCHLD);
    }
}

/// What happens on a signal.
#[derive(Clone, Copy)]
struct Action(libc::sigaction);

impl Action {
    fn of(signal: i32) -> io::Result<Self> {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: a null new action only asks; the answer has room.
        match unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } {
            // SAFETY: filled in by the call, and zeroes are a valid action anyway.
            0 => Ok(Self(unsafe { action.assume_init() })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set(&self, signal: i32) -> io::Result<()> {
        // SAFETY: the action is the default, `note_signal`, or one that the system itself had returned.
        match unsafe { libc::sigaction(signal, &self.0, ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn is_ignore(&self) -> bool {
        self.0.sa_sigaction == libc::SIG_IGN
    }

    fn default() -> Self {
        // SAFETY: zeroes are the default action with an empty mask.
        Self(unsafe { MaybeUninit::zeroed().assume_init() })
    }

    fn note() -> Self {
        let mut action = Self::default();
        action.0.sa_sigaction = note_signal as extern "C" fn(i32) as libc::sighandler_t;
        action.0.sa_flags = libc::SA_RESTART;
        action
    }
}

impl std::fmt::Debug for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Action").field(&self.0.sa_sigaction).finish()
    }
}

/// Runs in a signal handler: one write, and the interrupted code's `errno` left as it was. A full pipe holds more
/// signals than a launcher needs.
extern "C" fn note_signal(signal: i32) {
    let byte = [signal.cast_unsigned() as u8];
    // SAFETY: `write` and `errno` may be used in handlers; the descriptor is never closed.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(WRITE_FD.load(Ordering::Acquire), byte.as_ptr().cast(), 1);
        *errno = before;
    }
}
