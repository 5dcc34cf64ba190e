//! One program in place of this one: signals go on to it, and its end is this process's.

use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::ptr;

use rustix::process::{Pid, WaitOptions, waitpid};

/// The signals that go on to the program.
const PASSED: [i32; 11] = [
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGWINCH,
    libc::SIGURG,
    libc::SIGVTALRM,
    libc::SIGPROF,
];

/// Runs one program as a shell would: in the process group of this one, which passes signals on to it.
#[derive(Debug)]
pub struct Foreground {
    caught: libc::sigset_t,
    /// What was blocked before, and is again in the program.
    before: libc::sigset_t,
}

impl Foreground {
    /// Begins to keep signals for the program. To be called while this process has one thread: others would be given the signals.
    pub fn prepare() -> io::Result<Self> {
        let mut caught = MaybeUninit::uninit();
        // SAFETY: the call fills the set.
        let mut caught = unsafe {
            libc::sigemptyset(caught.as_mut_ptr());
            caught.assume_init()
        };
        for signal in PASSED.into_iter().chain([libc::SIGCHLD]) {
            // SAFETY: the set is one.
            unsafe { libc::sigaddset(&raw mut caught, signal) };
        }
        // A process that was started with this one ignored would not be told of the end of its children.
        // SAFETY: sets what a signal does to what it does by itself.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let mut before = caught;
        // SAFETY: both are sets.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const caught, &raw mut before) } {
            0 => Ok(Self { caught, before }),
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Starts the program and waits for its end.
    pub fn run(&self, command: &mut Command) -> io::Result<ExitStatus> {
        let before = self.before;
        let restore = move || {
            // SAFETY: sets the signals that are blocked, which may be done between fork and exec.
            match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) } {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            }
        };
        // SAFETY: the function does one system call and allocates nothing.
        unsafe { command.pre_exec(restore) };
        let child = command.spawn()?;
        let number = Pid::from_child(&child);
        loop {
            match waitpid(Some(number), WaitOptions::NOHANG) {
                Ok(Some((_, status))) => return Ok(ExitStatus::from_raw(status.as_raw())),
                Ok(None) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            self.pass_one(number);
        }
    }

    /// Waits for a signal, and passes it on.
    fn pass_one(&self, program: Pid) {
        let mut about = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the set is one, and the call fills what it is given if it returns a signal.
        let signal = unsafe { libc::sigwaitinfo(&raw const self.caught, about.as_mut_ptr()) };
        if signal <= 0 || signal == libc::SIGCHLD {
            return;
        }
        // SAFETY: zeroed, which is a value of it, and filled.
        let is_of_terminal = unsafe { about.assume_init() }.si_code == libc::SI_KERNEL;
        // The terminal sends its signals to the whole group, and so to the program too.
        if !is_of_terminal && let Some(signal) = rustix::process::Signal::from_named_raw(signal) {
            let _ = rustix::process::kill_process(program, signal);
        }
    }

    /// Ends this process as the program has ended: with its exit code, or by the signal that ended it.
    pub fn end_like(&self, status: ExitStatus) -> ! {
        if let Some(signal) = status.signal() {
            // The program has left what there is to see of its memory; this one would only overwrite it.
            let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
            let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
            // SAFETY: sets what a signal does to what it does by itself, lets it through, and sends it.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                let mut one = self.caught;
                libc::sigemptyset(&raw mut one);
                libc::sigaddset(&raw mut one, signal);
                libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const one, ptr::null_mut());
                libc::raise(signal);
            }
        }
        std::process::exit(status.code().unwrap_or(128 + status.signal().unwrap_or_default()))
    }
}
