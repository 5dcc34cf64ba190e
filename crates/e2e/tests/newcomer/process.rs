//! Commands, run to their end or until they are ready, never longer than a deadline.

use std::io::{PipeReader, Read, pipe};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// How long anything here may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a command left.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// What it wrote, to standard output and standard error.
    pub(crate) text: String,
}

/// A command that runs.
pub(crate) struct Running {
    child: Child,
    reader: PipeReader,
    text: Vec<u8>,
    began: Instant,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let (reader, writer) = pipe().unwrap();
        // Others may keep the other end when the command has ended: nobody waits for them.
        fcntl_setfl(&reader, OFlags::NONBLOCK).unwrap();
        command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer).process_group(0);
        Self { child: command.spawn().unwrap(), reader, text: Vec::new(), began: Instant::now() }
    }

    /// What it has written so far.
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }

    /// Takes what there is to read, after a moment if there is nothing.
    fn look(&mut self) {
        let moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        let _ = poll(&mut [PollFd::new(&self.reader, PollFlags::IN)], Some(&moment));
        let mut part = [0; 1 << 16];
        while let Ok(len @ 1..) = self.reader.read(&mut part) {
            self.text.extend_from_slice(&part[..len]);
        }
    }

    /// Waits until it has written something that makes it ready, or has ended; tells which.
    pub(crate) fn is_ready(&mut self, is_ready: impl Fn(&str) -> bool) -> bool {
        loop {
            let has_ended = self.child.try_wait().unwrap().is_some();
            self.look();
            if !has_ended && is_ready(&self.text()) {
                return true;
            }
            if has_ended || self.began.elapsed() > PATIENCE {
                return false;
            }
        }
    }

    /// What Ctrl-C does, and what came of it.
    pub(crate) fn interrupt(self) -> Ended {
        self.signal(Signal::INT);
        self.end()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        self.is_ready(|_| false);
        if self.child.try_wait().unwrap().is_none() {
            self.signal(Signal::KILL);
            self.text.extend_from_slice(format!("\n(it was ended after {PATIENCE:?})").as_bytes());
        }
        let status = self.child.wait().unwrap();
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        Ended { code, text: self.text() }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

/// Ends the process in the background that a text names, and waits until it has gone.
pub(crate) fn terminate(text: &str) {
    let named = ["(process ", "\"pid\":"]
        .iter()
        .find_map(|mark| text.split_once(mark))
        .expect("a process is named")
        .1;
    let end = named.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(named.len());
    let pid = named[..end].parse().ok().and_then(Pid::from_raw).expect("a number");
    let began = Instant::now();
    while kill_process(pid, Signal::TERM).is_ok() {
        assert!(began.elapsed() < PATIENCE, "{text}: it does not end");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}
