//! One started process: its outputs, its signals, its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use super::End;
use crate::output::{Cut, LineSplitter, OutputSource, Piece, Sink, Stream};

/// How long the launcher waits for a killed process, and for processes that still hold its outputs.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// A process started here. It leads its process group.
pub(crate) struct Member {
    pub(crate) source: OutputSource,
    pub(crate) pid: Pid,
    /// The writing end of its standard input, if that is a pipe.
    pub(crate) stdin: Option<OwnedFd>,
    pidfd: OwnedFd,
    taps: [Option<Tap>; 2],
    end: Option<End>,
    phase: Phase,
    asked: bool,
    killed: bool,
    reaped: bool,
}

/// The reading end of one of its outputs.
struct Tap {
    fd: OwnedFd,
    lines: LineSplitter,
}

/// From running to over, in this order; phases may be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// It was sent `SIGTERM`.
    Asked {
        kill_at: Instant,
    },
    /// It was sent `SIGKILL`.
    Killed {
        give_up_at: Instant,
    },
    Over,
}

impl Member {
    pub(super) fn new(
        source: OutputSource,
        pid: Pid,
        stdin: Option<OwnedFd>,
        outputs: [OwnedFd; 2],
    ) -> io::Result<Self> {
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(error) => {
                let _ = kill_process_group(pid, Signal::KILL);
                let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED);
                return Err(error.into());
            }
        };
        Ok(Self {
            source,
            pid,
            stdin,
            pidfd,
            taps: outputs.map(|fd| Some(Tap { fd, lines: LineSplitter::default() })),
            end: None,
            phase: Phase::Running,
            asked: false,
            killed: false,
            reaped: false,
        })
    }

    /// How it ended, when it has.
    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// Whether it was asked to end while it ran.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked
    }

    /// Whether it was killed because it had not ended when asked.
    pub(crate) fn was_killed(&self) -> bool {
        self.killed
    }

    /// Whether nothing more is expected of it.
    pub(crate) fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// What becomes readable when it ends.
    pub(super) fn awaited_end(&self) -> Option<BorrowedFd<'_>> {
        (self.end.is_none() && !self.is_over()).then(|| self.pidfd.as_fd())
    }

    /// What becomes readable when it prints.
    pub(super) fn output(&self, stream: Stream) -> Option<BorrowedFd<'_>> {
        self.taps[stream.index()].as_ref().map(|tap| tap.fd.as_fd())
    }

    pub(super) fn close_output(&mut self, stream: Stream) {
        self.taps[stream.index()] = None;
    }

    /// Notes its end if it has ended. It stays a zombie: its number is needed to signal its group.
    pub(super) fn note_end(&mut self) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.end = match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
            Ok(Some(status)) => Some(End::from_status(&status)),
            Ok(None) | Err(Errno::INTR) => self.end,
            Err(_) => Some(End::Lost),
        };
    }

    /// Passes on what it printed, at most one buffer full.
    pub(super) fn read_output(&mut self, stream: Stream, buffer: &mut [u8], sink: &mut dyn Sink) {
        let Some(tap) = &mut self.taps[stream.index()] else { return };
        let from = &self.source;
        let whole_lines = sink.whole_lines();
        let mut emit = |cut: Cut<'_>| {
            sink.take(Piece {
                from,
                stream,
                bytes: cut.bytes,
                starts_line: cut.starts_line,
                ends_line: cut.ends_line,
            });
        };
        let is_open = match rustix::io::read(&tap.fd, &mut *buffer) {
            Ok(len) => {
                tap.lines.push(&buffer[..len], &mut emit);
                len > 0
            }
            Err(Errno::AGAIN | Errno::INTR) => true,
            Err(_) => false,
        };
        if !is_open || !whole_lines {
            tap.lines.flush(&mut emit);
        }
        if !is_open {
            self.close_output(stream);
        }
    }

    /// Asks it and its children to end, and kills them when `grace` has passed.
    pub(crate) fn ask(&mut self, now: Instant, grace: Duration) {
        if self.phase == Phase::Running {
            self.asked |= self.end.is_none();
            self.phase = Phase::Asked { kill_at: now + grace };
            self.signal(Signal::TERM);
            // A stopped process acts on the first only when it continues.
            self.signal(Signal::CONT);
        }
    }

    /// Kills it and its children.
    pub(crate) fn kill(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Running | Phase::Asked { .. }) {
            self.asked |= self.end.is_none();
            self.killed |= self.end.is_none();
            self.phase = Phase::Killed { give_up_at: now + AFTER_KILL };
            self.signal(Signal::KILL);
        }
    }

    /// Takes the steps that are due. `is_held_back` says that what it printed cannot be shown yet.
    pub(super) fn advance(&mut self, now: Instant, grace: Duration, is_held_back: bool) {
        if self.is_over() {
            return;
        }
        let has_outputs = self.taps.iter().any(Option::is_some);
        if self.end.is_some() && !has_outputs {
            return self.finish();
        }
        // A process that it started still holds its outputs: what outlives a rank is not part of the job.
        if self.end.is_some() {
            self.ask(now, grace);
        }
        match self.phase {
            Phase::Asked { kill_at } if now >= kill_at => self.kill(now),
            Phase::Killed { give_up_at } if now >= give_up_at && !(is_held_back && has_outputs) => {
                self.finish()
            }
            _ => {}
        }
    }

    /// When `advance` has something to do even if nothing happens.
    pub(super) fn next_deadline(&self, is_held_back: bool) -> Option<Instant> {
        match self.phase {
            Phase::Asked { kill_at } => Some(kill_at),
            Phase::Killed { give_up_at } if !is_held_back => Some(give_up_at),
            _ => None,
        }
    }

    /// Closes its outputs, read or not, and lets nothing of its group live on.
    pub(super) fn finish(&mut self) {
        self.taps = [None, None];
        self.signal(Signal::KILL);
        self.phase = Phase::Over;
    }

    /// Gives its number back. Waits for its end, but not long: it was killed before.
    pub(super) fn reap(&mut self) {
        if std::mem::replace(&mut self.reaped, true) {
            return;
        }
        if super::wait_readable(self.pidfd.as_fd(), Instant::now() + AFTER_KILL) {
            self.note_end();
            let _ = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }

    /// The group exists as long as its leader is not reaped, so there is no other process to hit.
    fn signal(&self, signal: Signal) {
        if !self.reaped {
            let _ = kill_process_group(self.pid, signal);
        }
    }
}
