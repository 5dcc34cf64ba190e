//! A daemon ends when it is asked to, even if one of its threads does not get on.

use std::fs;

use outboard_e2e::{Daemon, Place, await_state, connect};
use rustix::process::Signal;

/// The thread of that name in a process.
fn thread(process: u32, name: &str) -> i32 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let is_it =
        |path: &std::path::Path| fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name);
    let found = threads.map(|thread| thread.path()).find(|path| is_it(path)).expect("it has such a thread");
    found.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// A thread of a child of ours that is stopped, as a debugger does it.
struct Frozen(i32);

impl Frozen {
    /// Stops it; `None` where that is not allowed.
    fn new(thread: i32) -> Option<Self> {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the kernel reads nothing from these pointers.
        let is_traced = unsafe {
            libc::ptrace(libc::PTRACE_SEIZE, thread, none, none) == 0
                && libc::ptrace(libc::PTRACE_INTERRUPT, thread, none, none) == 0
        };
        let frozen = is_traced.then_some(Self(thread))?;
        await_state("the thread to stop", || frozen.look());
        Some(frozen)
    }

    /// Whether it has stopped or ended since the last look. One that has ended is gone only when its tracer has looked.
    fn look(&self) -> Result<(), String> {
        let mut status = 0;
        // SAFETY: the kernel writes the status to a variable of ours.
        let seen = unsafe { libc::waitpid(self.0, &raw mut status, libc::__WALL | libc::WNOHANG) };
        if seen == self.0 { Ok(()) } else { Err("nothing has happened to it".to_owned()) }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: as above. One that is gone is not traced any more.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, none, none) };
    }
}

#[test]
fn a_daemon_whose_worker_is_stuck_ends_and_says_which() {
    let place = Place::new();
    let memory = Daemon::memory(&place, &place.socket(), &["--workers", "2"]);
    connect(memory.local()).echo(b"there").unwrap();
    let Some(frozen) = Frozen::new(thread(memory.process.pid(), "worker-0")) else {
        println!("skipped: {} may not be traced here", memory.name);
        return;
    };
    memory.process.signal(Signal::TERM);
    await_state("the daemon to end", || frozen.look());
    let (status, said) = memory.process.exit();
    assert_eq!(status.code(), Some(1), "{said:?}");
    assert!(said.iter().any(|line| line.contains("worker-0")), "{said:?}");
    place.assert_nothing_left();
}

#[test]
fn a_worker_that_was_stopped_in_its_sleep_is_named_and_gone_past() {
    let place = Place::new();
    let mut memory = Daemon::memory(&place, &place.socket(), &["--workers", "2"]);
    let Some(frozen) = Frozen::new(thread(memory.process.pid(), "worker-0")) else {
        println!("skipped: {} may not be traced here", memory.name);
        return;
    };
    memory.process.await_line(["thread worker-0 has not turned"]);
    for _ in 0..4 {
        connect(memory.local()).echo(b"by the other").unwrap();
    }
    assert_eq!(memory.number("threads_stuck"), 1);
    drop(frozen);
    memory.process.await_line(["thread worker-0 turns again"]);
    memory.await_number("threads_stuck", 0);
    memory.end();
    place.assert_nothing_left();
}
