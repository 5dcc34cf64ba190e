//! Processes that the tests start, never waited for without a limit.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::place::Place;

/// How long anything may take on a busy machine that has no deadline of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A child and what it has said so far. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    /// Lines before this one have been asked for.
    read: usize,
}

/// The program, without the settings of whoever runs the test.
pub(crate) fn outboard(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outboard"));
    command.args(arguments).env("OUTBOARD_CONFIG", "none").env_remove("OUTBOARD_SEED");
    place.mark(&mut command);
    command
}

impl Process {
    /// Starts it. Both outputs are read as they come.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (sender, lines) = channel();
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>),
            child.stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>),
        ];
        for output in outputs.into_iter().flatten() {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        Self { child, lines, said: Vec::new(), read: 0 }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line that has all of these parts, if it comes in time.
    pub(crate) fn line(&mut self, parts: &[&str], limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            while self.read < self.said.len() {
                let line = &self.said[self.read];
                self.read += 1;
                if parts.iter().all(|part| line.contains(part)) {
                    return Some(line.clone());
                }
            }
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// The same; it is a failure if it does not come.
    #[track_caller]
    pub(crate) fn await_line(&mut self, parts: &[&str]) -> String {
        let line = self.line(parts, PATIENCE);
        line.unwrap_or_else(|| panic!("process {}: no line with {parts:?} but {:?}", self.pid(), self.said))
    }

    /// All that it has said so far.
    pub(crate) fn said(&mut self) -> &[String] {
        self.said.extend(self.lines.try_iter());
        &self.said
    }

    /// Lets time pass, or less if the process ends.
    pub(crate) fn idle(&self, span: Duration) {
        has_ended(self.pid(), span);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        let _ = kill_process(pid(self.pid()), signal);
    }

    /// Says a line to it.
    pub(crate) fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is open until it is closed");
        // It may have ended by itself.
        let _ = writeln!(stdin, "{line}");
    }

    /// Tells it that there is no more to do.
    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// How it ended, and all that it said.
    #[track_caller]
    pub(crate) fn exit(self) -> (ExitStatus, Vec<String>) {
        self.exit_within(PATIENCE)
    }

    /// The same of one that has more to do.
    #[track_caller]
    pub(crate) fn exit_within(mut self, limit: Duration) -> (ExitStatus, Vec<String>) {
        let ended = has_ended(self.pid(), limit);
        assert!(ended, "process {} does not end; it said {:?}", self.pid(), self.said());
        let status = self.child.wait().expect("it has ended and is ours");
        let mut said = std::mem::take(&mut self.said);
        // The readers end with the outputs.
        said.extend(self.lines.iter());
        (status, said)
    }

    /// Kills it without warning and sees it end.
    #[track_caller]
    pub(crate) fn kill(self) -> Vec<String> {
        self.signal(Signal::KILL);
        self.exit().1
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(number.cast_signed()).expect("a child has a number")
}

/// Waits until a process has ended; returns whether it has. One that is gone already has.
fn has_ended(number: u32, limit: Duration) -> bool {
    let Ok(process) = pidfd_open(pid(number), PidfdFlags::empty()) else { return true };
    let time = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
}
