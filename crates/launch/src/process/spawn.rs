//! Starts one process that cannot outlive this one.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::{Errno, FdFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::Member;
use crate::output::OutputSource;

/// What to start and how.
pub(crate) struct Spawn<'a> {
    /// The file.
    pub(crate) program: &'a Path,
    /// What it is called in its own arguments.
    pub(crate) called: &'a OsStr,
    pub(crate) args: &'a [OsString],
    /// Added to this process's environment.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cpus: Option<CpuSet>,
    pub(crate) stdin: Stdio,
    /// Where the process writes its number before it runs the program, in 4 bytes.
    pub(crate) announce_to: Option<BorrowedFd<'a>>,
    /// A descriptor that the program inherits under the same number.
    pub(crate) pass: Option<BorrowedFd<'a>>,
}

impl Spawn<'_> {
    /// Starts it at the head of a process group of its own.
    ///
    /// The kernel kills it when the *thread* that calls this ends.
    pub(crate) fn start(self, source: OutputSource) -> io::Result<Member> {
        let (out, out_child) = output_pipe()?;
        let (err, err_child) = output_pipe()?;
        let mut command = Command::new(self.program);
        command.arg0(self.called).args(self.args).envs(self.env);
        command.stdin(self.stdin).stdout(out_child).stderr(err_child).process_group(0);
        let prepare = Prepare {
            parent: getpid(),
            cpus: self.cpus,
            announce_to: self.announce_to.map(|fd| fd.as_raw_fd()),
            pass: self.pass.map(|fd| fd.as_raw_fd()),
        };
        // SAFETY: `run` makes system calls only, through wrappers that neither allocate nor lock, as a child of a
        // process with threads must. Its descriptors are borrowed by `self`, so they are open until after the fork.
        unsafe { command.pre_exec(move || prepare.run()) };
        let child = command.spawn()?;
        // Not reaped before the member says so, hence the number is its own until then.
        let pid = Pid::from_child(&child);
        Member::new(source, pid, child.stdin.map(OwnedFd::from), [out, err])
    }
}

/// What the child does before it becomes the program.
struct Prepare {
    parent: Pid,
    cpus: Option<CpuSet>,
    announce_to: Option<RawFd>,
    pass: Option<RawFd>,
}

impl Prepare {
    fn run(&self) -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A parent that died before the line above sends no signal any more.
        if getppid() != Some(self.parent) {
            return Err(Errno::SRCH.into());
        }
        block_no_signals()?;
        if let Some(cpus) = &self.cpus {
            sched_setaffinity(None, cpus)?;
        }
        if let Some(fd) = self.announce_to {
            // SAFETY: open, see `start`.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::write(fd, &getpid().as_raw_nonzero().get().to_ne_bytes())?;
        }
        if let Some(fd) = self.pass {
            // SAFETY: open, see `start`.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            rustix::io::fcntl_setfd(fd, FdFlags::empty())?;
        }
        Ok(())
    }
}

/// A program would not be ended by signals that its parent holds off for itself.
fn block_no_signals() -> io::Result<()> {
    let mut none = MaybeUninit::uninit();
    // SAFETY: the first call fills the set, and the second takes it; both may be made between fork and exec.
    let failed = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut())
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

/// A pipe whose reading end never blocks; the writing end belongs to a program that expects to be held back.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(read.as_fd())?;
    Ok((read, write))
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)? | rustix::fs::OFlags::NONBLOCK;
    Ok(rustix::fs::fcntl_setfl(fd, flags)?)
}

/// The kernel's form of a list of processors. Numbers beyond what it can express are left out.
pub(crate) fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        set.set(*cpu);
    }
    set
}
