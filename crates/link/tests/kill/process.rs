//! A child process, never waited for without a limit.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::leftovers::Leftovers;
use crate::spec::Spec;

/// A child and what it has said so far.
pub(crate) struct Process {
    child: Child,
    ended: OwnedFd,
    said: String,
}

fn wait(on: &impl AsFd, limit: Duration) -> bool {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(on, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}

impl Process {
    pub(crate) fn start(spec: &Spec, leftovers: &Leftovers) -> Self {
        let (variable, value) = spec.to_environment();
        let child = outboard_child::again()
            .env(variable, value)
            .env("TMPDIR", leftovers.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the test can be started again");
        let ended = pidfd_open(pid(&child), PidfdFlags::empty()).expect("the child was just started");
        Self { child, ended, said: String::new() }
    }

    /// The rest of the first line that begins with `start`. `None` if it does not come in time.
    pub(crate) fn line(&mut self, start: &str, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            let (whole, _) = self.said.rsplit_once('\n').unwrap_or_default();
            if let Some(rest) = whole.lines().find_map(|line| line.strip_prefix(start)) {
                return Some(rest.to_owned());
            }
            let stdout = self.child.stdout.as_mut()?;
            if !wait(stdout, until.saturating_duration_since(Instant::now())) {
                return None;
            }
            let mut bytes = [0; 4096];
            match stdout.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(len) => self.said.push_str(&String::from_utf8_lossy(&bytes[..len])),
            }
        }
    }

    /// Lets time pass, or less if the process ends.
    pub(crate) fn idle(&self, span: Duration) {
        wait(&self.ended, span);
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
    }

    pub(crate) fn stop(&self) {
        kill_process(pid(&self.child), Signal::STOP).expect("the child lives and is ours");
    }

    /// Tells it that no connection will come any more.
    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// How it ended. `None` if it does not end in time.
    pub(crate) fn exit(&mut self, limit: Duration) -> Option<ExitStatus> {
        if !wait(&self.ended, limit) {
            return None;
        }
        self.child.wait().ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        let _ = self.child.wait();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32).expect("a child has a number")
}
