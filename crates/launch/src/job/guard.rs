//! A second process that outlives a killed launcher just long enough to clean up after it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, setsid, waitpid};

/// A process that kills every announced process group when the launcher is gone.
///
/// The kernel kills the ranks of a dead launcher by itself, but not what the ranks have started: a shell script's
/// real program, for instance. Dropping the guard ends it without killing a process.
pub(super) struct Guard {
    pid: Pid,
    pipe: OwnedFd,
}

impl Guard {
    /// Starts it, with room for this many groups.
    pub(super) fn start(groups_max: usize) -> io::Result<Self> {
        let (read, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
        let groups = Vec::with_capacity(groups_max);
        // SAFETY: the child makes system calls only, into memory allocated before, and leaves by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                let code = watch(read.as_raw_fd(), groups);
                // SAFETY: always sound; unlike `exit` it runs nothing of the copied process.
                unsafe { libc::_exit(code) }
            }
            raw => match Pid::from_raw(raw) {
                Some(pid) if raw > 0 => Ok(Self { pid, pipe }),
                _ => Err(io::Error::last_os_error()),
            },
        }
    }

    /// Where a process group announces itself, by writing its number in 4 bytes.
    pub(super) fn pipe(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed rather than told, so that the wait below is short whatever state it is in.
        let _ = kill_process(self.pid, Signal::KILL);
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Runs in the copy of a process with threads: no allocation, no lock.
fn watch(pipe: RawFd, mut groups: Vec<Pid>) -> i32 {
    // Out of reach of the terminal's signals, which are the launcher's to answer.
    let _ = setsid();
    // Everything else is closed: a copy of any pipe's writing end, the launcher's own included, would keep that
    // pipe's reader from ever seeing its end.
    // SAFETY: plain system calls on descriptors of this process, which uses no other from here on.
    let is_alone = unsafe {
        libc::dup2(pipe, 0) == 0
            && libc::syscall(libc::SYS_close_range, 1 as libc::c_uint, libc::c_uint::MAX, 0 as libc::c_uint)
                == 0
    };
    if !is_alone {
        return 1;
    }
    // SAFETY: opened above and never closed.
    let pipe = unsafe { BorrowedFd::borrow_raw(0) };
    let mut number = [0; 4];
    loop {
        match rustix::io::read(pipe, &mut number) {
            Ok(len) if len == number.len() => {
                let group = Pid::from_raw(i32::from_ne_bytes(number));
                // Beyond the capacity a push would allocate; there are never more groups than ranks.
                if let Some(group) = group.filter(|_| groups.len() < groups.capacity()) {
                    groups.push(group);
                }
            }
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    for group in &groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    0
}
