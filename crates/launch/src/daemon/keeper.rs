//! The thread that starts a daemon, listens to it and sees it end.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::control::{Control, Request};
use super::tail::Tail;
use super::{DaemonConfig, DaemonError, READY_FD_VARIABLE, Ready};
use crate::output::{Acceptance, OutputSource, Piece, Sink, Stream};
use crate::process::{Crew, End, Other, Spawn, cpu_set};
use crate::quota::Limit;

/// The longest line by which a daemon can say that it is ready; what is longer is cut.
const READY_LINE_BYTES_MAX: usize = 4 << 10;

/// How long the last lines of an ended daemon may wait for a slow reader.
const SHOW_WITHIN: Duration = Duration::from_secs(1);

/// Runs a daemon from its start to its end. Answers exactly once.
pub(super) fn run(
    config: DaemonConfig,
    program: &Path,
    sink: Box<dyn Sink + Send>,
    control: &Control,
    answer: &SyncSender<Result<Ready, DaemonError>>,
) {
    // The owner waits for the answer, so it is there to take it.
    match Keeper::start(config, program, sink, control) {
        Err(error) => drop(answer.send(Err(error))),
        Ok((mut keeper, until)) => match keeper.await_ready(until) {
            Ok(ready) => {
                let _ = answer.send(Ok(ready));
                keeper.keep();
            }
            Err(error) => {
                // Nothing of the daemon is left when its owner learns that it failed.
                drop(keeper);
                let _ = answer.send(Err(error));
            }
        },
    }
}

/// The field order matters: processes are ended before the control group that holds them is removed.
struct Keeper<'a> {
    config: DaemonConfig,
    /// The daemon alone.
    crew: Crew,
    limit: Option<Limit>,
    sink: Tail,
    control: &'a Control,
    ready_pipe: Option<OwnedFd>,
    ready_line: Vec<u8>,
}

impl<'a> Keeper<'a> {
    fn start(
        config: DaemonConfig,
        program: &Path,
        sink: Box<dyn Sink + Send>,
        control: &'a Control,
    ) -> Result<(Self, Instant), DaemonError> {
        let until = Instant::now() + config.ready_within;
        let mut crew = Crew::new(Duration::ZERO);
        let failed = |source| DaemonError::Start { name: config.name.clone(), source };
        let ready_pipe = spawn(&config, program, &mut crew).map_err(failed)?;
        let pid = raw_pid(&crew);
        let limit = config.quota.map(|quota| quota.apply(pid)).transpose();
        let limit = limit.map_err(|source| DaemonError::Quota { name: config.name.clone(), source })?;
        let (ready_pipe, ready_line) = (Some(ready_pipe), Vec::new());
        Ok((Self { config, crew, limit, sink: Tail::new(sink), control, ready_pipe, ready_line }, until))
    }

    /// Waits for the daemon's line, or its end, or the deadline.
    fn await_ready(&mut self, until: Instant) -> Result<Ready, DaemonError> {
        loop {
            let pipe = self.ready_pipe.as_ref().map(|pipe| Other { fd: pipe.as_fd(), flags: PollFlags::IN });
            let others: Vec<Other<'_>> = pipe.into_iter().collect();
            let turn = self.crew.turn(&mut self.sink, &others, Some(until));
            let name = self.config.name.clone();
            if !turn.map_err(|source| DaemonError::Start { name: name.clone(), source })?.is_empty() {
                self.read_ready();
            }
            if let Some(line) = first_line(&self.ready_line) {
                return Ok(self.ready(line));
            }
            if self.crew.is_over() {
                let end = self.end();
                return Err(DaemonError::Died { name, end, last_lines: self.sink.lines() });
            }
            if Instant::now() >= until {
                let waited = self.config.ready_within;
                return Err(DaemonError::NotReady { name, waited, last_lines: self.sink.lines() });
            }
        }
    }

    fn read_ready(&mut self) {
        let Some(pipe) = &self.ready_pipe else { return };
        let mut bytes = [0; 512];
        match rustix::io::read(pipe, &mut bytes) {
            Ok(0) => self.ready_pipe = None,
            Ok(len) if self.ready_line.len() < READY_LINE_BYTES_MAX => {
                self.ready_line.extend_from_slice(&bytes[..len]);
            }
            Ok(_) => self.ready_line.push(b'\n'),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.ready_pipe = None,
        }
    }

    fn ready(&self, line: String) -> Ready {
        Ready {
            pid: raw_pid(&self.crew),
            line,
            limit: self.limit.as_ref().map(Limit::to_string),
            warning: self.limit.as_ref().and_then(Limit::warning).map(str::to_owned),
        }
    }

    /// Listens until the daemon has ended, by itself or on request.
    fn keep(mut self) {
        self.ready_pipe = None;
        let mut requested = false;
        while !self.crew.is_over() {
            let others = [Other { fd: self.control.as_fd(), flags: PollFlags::IN }];
            let Ok(ready) = self.crew.turn(&mut self.sink, &others, None) else { break };
            if ready.is_empty() {
                continue;
            }
            match self.control.take_request() {
                Some(Request::Stop { grace }) => {
                    requested = true;
                    self.crew.grace = grace;
                    self.crew.ask_all();
                }
                Some(Request::Kill) => {
                    requested = true;
                    self.crew.abandon();
                }
                None => {}
            }
        }
        self.crew.abandon();
        self.crew.reap();
        let end = self.end();
        // Known to the owner before the line that tells of it is shown.
        self.control.set_end(end);
        if !requested {
            self.show(&end.to_string());
        }
        self.show_rest();
    }

    fn end(&self) -> End {
        self.crew.members[0].end().unwrap_or(End::Stuck)
    }

    /// A line about the daemon, among its own.
    fn show(&mut self, text: &str) {
        let from = &self.crew.members[0].source;
        let (stream, bytes) = (Stream::Err, text.as_bytes());
        self.sink.take(Piece { from, stream, bytes, starts_line: true, ends_line: true });
        self.sink.flush();
    }

    fn show_rest(&mut self) {
        let until = Instant::now() + SHOW_WITHIN;
        let is_blocked = |sink: &Tail| {
            Stream::BOTH.iter().any(|stream| matches!(sink.acceptance(*stream), Acceptance::Blocked(_)))
        };
        while is_blocked(&self.sink) && Instant::now() < until {
            if self.crew.turn(&mut self.sink, &[], Some(until)).is_err() {
                break;
            }
        }
    }
}

/// Starts the daemon as the only member of the crew; returns where it says that it is ready.
fn spawn(config: &DaemonConfig, program: &Path, crew: &mut Crew) -> io::Result<OwnedFd> {
    let (ready_pipe, for_child) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut env = config.env.clone();
    env.push((READY_FD_VARIABLE.to_owned(), for_child.as_raw_fd().to_string()));
    let spawn = Spawn {
        program,
        called: &config.program,
        args: &config.args,
        env,
        cpus: config.cpus.as_deref().map(cpu_set),
        stdin: Stdio::null(),
        announce_to: None,
        pass: Some(for_child.as_fd()),
    };
    crew.members.push(spawn.start(OutputSource::Named(config.name.as_str().into()))?);
    Ok(ready_pipe)
}

fn raw_pid(crew: &Crew) -> u32 {
    crew.members[0].pid.as_raw_nonzero().get().cast_unsigned()
}

/// The text up to the first newline, if there is one.
fn first_line(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}
