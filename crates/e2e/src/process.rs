//! Processes that tests start, never waited for without a limit.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

/// How long anything may take on a busy machine that has no deadline of its own.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// What a line is looked for by: a part of it, or several.
pub trait Parts: Debug {
    /// Whether the line has all of them.
    fn are_in(&self, line: &str) -> bool;
}

impl Parts for str {
    fn are_in(&self, line: &str) -> bool {
        line.contains(self)
    }
}

impl<T: AsRef<str> + Debug, const N: usize> Parts for [T; N] {
    fn are_in(&self, line: &str) -> bool {
        self.iter().all(|part| line.contains(part.as_ref()))
    }
}

impl<T: Parts + ?Sized> Parts for &T {
    fn are_in(&self, line: &str) -> bool {
        (**self).are_in(line)
    }
}

/// What a program left that has ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code, or none if a signal has ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub out: String,
    /// What it wrote to standard error.
    pub err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the program prints text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Ended {
    /// Runs a command to its end.
    ///
    /// # Panics
    ///
    /// If it does not start, or prints what is no text.
    #[must_use]
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("the program starts"))
    }

    /// Asserts the exit code, and that the error tells all of this.
    ///
    /// # Panics
    ///
    /// If it is otherwise.
    #[track_caller]
    pub fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains("outboard: "), "{self:?}");
        for part in parts {
            assert!(self.err.contains(part), "“{part}” is not in {self:?}");
        }
    }

    /// Asserts that the program refused what it was told: with this exit code, a message that has this part, and nothing else.
    ///
    /// # Panics
    ///
    /// If it is otherwise.
    #[track_caller]
    pub fn refused(&self, code: i32, part: &str) {
        self.failed(code, &[part]);
        assert!(self.err.starts_with("outboard: ") && self.out.is_empty(), "{self:?}");
    }

    /// Asserts success, and returns what was printed.
    ///
    /// # Panics
    ///
    /// If the program failed.
    #[track_caller]
    pub fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// The last line of a program that succeeded, which has to be JSON.
    ///
    /// # Panics
    ///
    /// If the program failed, or printed anything else.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let out = self.succeeded();
        serde_json::from_str(out.lines().last().expect("a line of JSON")).expect("valid JSON")
    }
}

/// A child and what it has said so far. Dropping it kills it.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Only its owner reads; a lock lets other threads send signals meanwhile.
    lines: Mutex<Receiver<Line>>,
    said: Vec<String>,
    /// Whether each of the lines came by standard error.
    is_error: Vec<bool>,
    /// Lines before this one have been asked for.
    read: usize,
}

/// A line, and whether it came by standard error.
type Line = (bool, String);

impl Process {
    /// Starts it without standard input. Both outputs are read as they come.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        Self::spawn(command)
    }

    #[track_caller]
    fn spawn(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (sender, lines) = channel();
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|out| Box::new(out) as Box<dyn Read + Send>),
            child.stderr.take().map(|err| Box::new(err) as Box<dyn Read + Send>),
        ];
        for (is_error, output) in [false, true].into_iter().zip(outputs) {
            let sender = sender.clone();
            thread::spawn(move || {
                let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
                lines.map_while(Result::ok).for_each(|line| {
                    let _ = sender.send((is_error, line));
                });
            });
        }
        Self { child, lines: Mutex::new(lines), said: Vec::new(), is_error: Vec::new(), read: 0 }
    }

    /// Starts one that will be [told](Self::tell) what to do.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    #[track_caller]
    pub fn start_told(mut command: Command) -> Self {
        command.stdin(Stdio::piped());
        Self::spawn(command)
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn lines(&mut self) -> &Receiver<Line> {
        self.lines.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&mut self, (is_error, line): Line) {
        self.said.push(line);
        self.is_error.push(is_error);
    }

    /// The next line that has all of these parts, if it comes in time.
    pub fn line(&mut self, parts: impl Parts, limit: Duration) -> Option<String> {
        let until = Instant::now() + limit;
        loop {
            while self.read < self.said.len() {
                let line = &self.said[self.read];
                self.read += 1;
                if parts.are_in(line) {
                    return Some(line.clone());
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.lines().recv_timeout(left) {
                Ok(line) => self.hear(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// The next line that has all of these parts.
    ///
    /// # Panics
    ///
    /// If it does not come.
    #[track_caller]
    pub fn await_line(&mut self, parts: impl Parts) -> String {
        let line = self.line(&parts, PATIENCE);
        line.unwrap_or_else(|| panic!("process {}: no line with {parts:?} but {:?}", self.pid(), self.said))
    }

    /// A line that has all of these parts, whether it has been said already or comes.
    ///
    /// # Panics
    ///
    /// If it does not come.
    #[track_caller]
    pub fn await_said(&mut self, parts: impl Parts) -> String {
        self.read = 0;
        self.await_line(parts)
    }

    /// All that it has said so far.
    pub fn said(&mut self) -> &[String] {
        while let Ok(line) = self.lines().try_recv() {
            self.hear(line);
        }
        &self.said
    }

    /// Lets time pass, or less if the process ends.
    pub fn idle(&self, span: Duration) {
        has_ended(self.pid(), span);
    }

    /// Sends it a signal. It may have ended by itself.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process(pid(self.pid()), signal);
    }

    /// Stops it as if its machine hung. None of its threads does anything afterwards: a busy machine lets some of them go on
    /// for a while after the signal was sent.
    ///
    /// # Panics
    ///
    /// If it has ended.
    pub fn stop(&self) {
        let pid = pid(self.pid());
        kill_process(pid, Signal::STOP).expect("it lives");
        waitpid(Some(pid), WaitOptions::UNTRACED).expect("it is a child of ours");
    }

    /// Lets it go on after [`stop`](Self::stop).
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Says a line to it. It may have ended by itself.
    ///
    /// # Panics
    ///
    /// If it was not started to be told anything.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().expect("it is open until it is closed");
        let _ = writeln!(stdin, "{line}");
    }

    /// Tells it that there is no more to do.
    pub fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// How it ended, and all that it said.
    ///
    /// # Panics
    ///
    /// If it does not end.
    #[track_caller]
    pub fn exit(self) -> (ExitStatus, Vec<String>) {
        self.exit_within(PATIENCE)
    }

    /// The same of one that has more to do.
    ///
    /// # Panics
    ///
    /// If it does not end.
    #[track_caller]
    pub fn exit_within(mut self, limit: Duration) -> (ExitStatus, Vec<String>) {
        let status = self.await_exit(limit);
        (status, std::mem::take(&mut self.said))
    }

    /// What it left, each output for itself.
    ///
    /// # Panics
    ///
    /// If it does not end.
    #[track_caller]
    pub fn ended_within(mut self, limit: Duration) -> Ended {
        let code = self.await_exit(limit).code();
        let of = |wanted: bool| {
            let lines = self.said.iter().zip(&self.is_error).filter(|(_, is_error)| **is_error == wanted);
            lines.map(|(line, _)| format!("{line}\n")).collect()
        };
        Ended { code, out: of(false), err: of(true) }
    }

    #[track_caller]
    fn await_exit(&mut self, limit: Duration) -> ExitStatus {
        let ended = has_ended(self.pid(), limit);
        assert!(ended, "process {} does not end; it said {:?}", self.pid(), self.said());
        let status = self.child.wait().expect("it has ended and is ours");
        // The readers end with the outputs.
        while let Ok(line) = self.lines().recv() {
            self.hear(line);
        }
        status
    }

    /// Kills it without warning and sees it end.
    ///
    /// # Panics
    ///
    /// If it does not end.
    #[track_caller]
    pub fn kill(self) -> Vec<String> {
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
    Pid::from_raw(number.cast_signed()).expect("a process has a number")
}

/// Waits until a process has ended. One that is gone already has.
///
/// # Panics
///
/// If it does not end.
#[track_caller]
pub fn await_end(number: u32) {
    assert!(has_ended(number, PATIENCE), "process {number} did not end within {PATIENCE:?}");
}

/// Waits until a process has ended; returns whether it has. One that is gone already has.
fn has_ended(number: u32, limit: Duration) -> bool {
    let Ok(process) = pidfd_open(pid(number), PidfdFlags::empty()) else { return true };
    let time = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
}
