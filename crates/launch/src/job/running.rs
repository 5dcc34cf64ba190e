//! A job on its way.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use thiserror::Error;

use super::guard::Guard;
use super::stdin::StdinPump;
use super::{JobOutcome, RankEnd, RankFailure};
use crate::interrupts::Interrupts;
use crate::output::{Acceptance, Sink, Stream};
use crate::process::{Crew, End, Other};

/// A job whose ranks were started. Dropping it kills them.
///
/// It stays with the thread that started it (it is not `Send`): the ranks end when that thread does.
pub struct Running {
    pub(super) crew: Crew,
    pub(super) stdin: Option<StdinPump>,
    /// What ranks read from, open until the end.
    pub(super) fed: Vec<OwnedFd>,
    first: u32,
    guard: Option<Guard>,
    first_failure: Option<RankFailure>,
    interrupted_by: Option<i32>,
    /// Which ranks' ends have been looked at.
    judged: Vec<bool>,
    stays_with_thread: PhantomData<*const ()>,
}

/// Why a job could not be watched any longer. It was killed.
#[derive(Debug, Error)]
#[error("cannot wait for the job's processes; they were killed")]
pub struct WaitError(#[from] io::Error);

impl Running {
    pub(super) fn new(crew: Crew, guard: Guard, first: u32) -> Self {
        Self {
            crew,
            stdin: None,
            fed: Vec::new(),
            first,
            guard: Some(guard),
            first_failure: None,
            interrupted_by: None,
            judged: Vec::new(),
            stays_with_thread: PhantomData,
        }
    }

    pub(super) fn guard_pipe(&self) -> Option<BorrowedFd<'_>> {
        self.guard.as_ref().map(Guard::pipe)
    }

    /// The ranks' process numbers, in order.
    pub fn pids(&self) -> Vec<u32> {
        self.crew.members.iter().map(|member| member.pid.as_raw_nonzero().get().cast_unsigned()).collect()
    }

    /// Shows what the ranks print until the last of them has ended, which is soon after the first has failed.
    ///
    /// An interrupt ends the job the same way as a failure; a second one kills it at once.
    pub fn wait(
        mut self,
        sink: &mut dyn Sink,
        interrupts: Option<&Interrupts>,
    ) -> Result<JobOutcome, WaitError> {
        while !self.crew.is_over() || has_backlog(sink) {
            let ready = self.turn(sink, interrupts)?;
            if ready.stdin && !self.stdin.as_mut().is_some_and(StdinPump::step) {
                self.stdin = None;
            }
            if ready.interrupts && !self.interrupt(interrupts) {
                break;
            }
            self.judge();
        }
        self.finish();
        Ok(self.outcome())
    }

    fn turn(&mut self, sink: &mut dyn Sink, interrupts: Option<&Interrupts>) -> io::Result<Ready> {
        let interrupt = interrupts.map(|interrupts| Other { fd: interrupts.as_fd(), flags: PollFlags::IN });
        let stdin = self.stdin.as_ref().map(StdinPump::awaited);
        let stdin_at = usize::from(interrupt.is_some());
        let others: Vec<Other<'_>> = interrupt.into_iter().chain(stdin).collect();
        let ready = self.crew.turn(sink, &others, None)?;
        Ok(Ready {
            interrupts: interrupts.is_some() && ready.contains(&0),
            stdin: self.stdin.is_some() && ready.contains(&stdin_at),
        })
    }

    /// Acts on an interrupt; false when the job is to be left at once: at the second, or when all that is left to
    /// wait for is a reader that does not read.
    fn interrupt(&mut self, interrupts: Option<&Interrupts>) -> bool {
        while let Some(signal) = interrupts.and_then(Interrupts::take) {
            if self.interrupted_by.is_some() {
                self.crew.kill_all();
                return false;
            }
            self.interrupted_by = Some(signal);
            self.crew.ask_all();
        }
        !self.crew.is_over()
    }

    /// Looks at the ranks that have ended, and ends the job if one of them has failed.
    fn judge(&mut self) {
        self.judged.resize(self.crew.members.len(), false);
        let mut failures = Vec::new();
        for (rank, (member, judged)) in (self.first..).zip(self.crew.members.iter().zip(&mut self.judged)) {
            let Some(end) = member.end() else { continue };
            let is_new = !std::mem::replace(judged, true);
            if is_new && !member.was_asked() && !end.is_success() {
                failures.push(RankFailure { rank, end });
            }
        }
        if self.interrupted_by.is_some() || self.first_failure.is_some() {
            return;
        }
        // Of those that ended since the last look, a rank that crashed is the likelier cause than one that gave up.
        failures.sort_by_key(|failure| !matches!(failure.end, End::Signaled { .. }));
        self.first_failure = failures.first().copied();
        if self.first_failure.is_some() {
            self.crew.ask_all();
        }
    }

    /// The guard goes while the ranks' numbers are still theirs, so that it can never hit another process.
    fn finish(&mut self) {
        self.crew.abandon();
        self.guard = None;
        self.crew.reap();
    }

    fn outcome(&self) -> JobOutcome {
        let rank_end = |member: &crate::process::Member| RankEnd {
            end: member.end().unwrap_or(End::Stuck),
            asked: member.was_asked(),
            killed: member.was_killed(),
        };
        JobOutcome {
            first: self.first,
            ranks: self.crew.members.iter().map(rank_end).collect(),
            first_failure: self.first_failure,
            interrupted_by: self.interrupted_by,
        }
    }
}

/// What happened in a turn besides what the ranks did.
struct Ready {
    interrupts: bool,
    stdin: bool,
}

fn has_backlog(sink: &dyn Sink) -> bool {
    Stream::BOTH.iter().any(|stream| matches!(sink.acceptance(*stream), Acceptance::Blocked(_)))
}

impl Drop for Running {
    fn drop(&mut self) {
        self.finish();
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("pids", &self.pids()).finish_non_exhaustive()
    }
}
