//! A program with one placement, for a short time.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use outboard_launch::{Interrupts, Launch, Piece, Stream};
use outboard_link::Address;
use outboard_probe::CacheMisses;
use outboard_settings::MessagesPlacement;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::reports::{Summary, Traffic, traffic};
use crate::children::GRACE;
use crate::ranks::draw_number;

/// The placements that are compared.
pub(super) const COMPARED: [MessagesPlacement; 2] = [MessagesPlacement::Inline, MessagesPlacement::Agent];

/// The best of several runs.
#[derive(Clone, Debug)]
pub(super) struct Tried {
    pub(super) summary: Summary,
    pub(super) runs: usize,
    /// Whether the program was ended because its time was up.
    pub(super) was_cut: bool,
    /// Bytes fetched from memory for each byte that was sent, and whether that was measured.
    pub(super) memory: Option<(f64, bool)>,
    pub(super) utilisation: Option<f64>,
}

/// Runs with one placement.
pub(super) struct Trial {
    placement: MessagesPlacement,
    left: Duration,
    runs: usize,
    best: Option<Tried>,
    /// Why there is no result.
    failure: Option<anyhow::Error>,
}

/// A folder for reports, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Result<Self> {
        let number = draw_number().context("no random number for a folder")?;
        let path = std::env::temp_dir().join(format!("outboard-advise-{number:016x}"));
        fs::create_dir(&path).with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that cannot be removed stays with other temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Trial {
    pub(super) fn new(placement: MessagesPlacement, limit: Duration) -> Self {
        Self { placement, left: limit, runs: 0, best: None, failure: None }
    }

    /// Whether another run makes sense.
    pub(super) fn has_time(&self) -> bool {
        self.failure.is_none() && !self.left.is_zero()
    }

    /// Runs the program once. Fails only if nothing more is to be tried.
    pub(super) fn run(
        &mut self,
        command: &[OsString],
        agent: Option<&Address>,
        interrupts: &Interrupts,
    ) -> Result<()> {
        let (folder, began) = (Folder::make()?, Instant::now());
        let misses = CacheMisses::count().ok();
        let ended = self.start(command, agent, &folder, interrupts)?;
        let took = began.elapsed();
        self.left = self.left.saturating_sub(took);
        self.runs += 1;
        if ended.was_cut {
            self.left = Duration::ZERO;
        }
        let misses = misses.and_then(|misses| misses.so_far().ok());
        match (Summary::read(&folder.0), ended.complaint) {
            (_, Some(complaint)) => self.failure = Some(complaint),
            (None, None) if ended.was_cut => {
                self.failure = Some(anyhow!("it has not come to send messages: give it more --seconds"));
            }
            (None, None) => self.failure = Some(anyhow!("it has not used a Messenger")),
            (Some(summary), None) => self.note(summary, traffic(&folder.0), misses, ended.was_cut),
        }
        Ok(())
    }

    fn start(
        &self,
        command: &[OsString],
        agent: Option<&Address>,
        folder: &Folder,
        interrupts: &Interrupts,
    ) -> Result<Ended> {
        let (program, args) = command.split_first().context("no program to run")?;
        let report = folder.0.to_str().context("the folder for temporary files has no plain name")?;
        let mut env = vec![
            ("OUTBOARD_REPORT".to_owned(), report.to_owned()),
            ("OUTBOARD_MESSAGES_PLACEMENT".to_owned(), self.placement.name().to_owned()),
        ];
        let agent = agent.filter(|_| self.placement == MessagesPlacement::Agent);
        env.extend(agent.map(|address| ("OUTBOARD_JOB_AGENT".to_owned(), address.to_string())));
        let running = Launch::new(program).args(args).env(|_| env.clone()).grace(GRACE).start()?;
        let pid = running.pids().first().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        let timer = Timer::start(pid.context("the program has no number")?, self.left)?;
        let mut said = Vec::new();
        let mut sink = |piece: Piece<'_>| {
            if piece.stream == Stream::Err {
                said.push(piece.bytes.escape_ascii().to_string());
            }
        };
        let outcome = running.wait(&mut sink, Some(interrupts))?;
        let was_cut = timer.stop();
        if outcome.interrupted_by.is_some() {
            bail!("interrupted");
        }
        let complaint = (!was_cut && !outcome.is_success()).then(|| match last_lines(&said) {
            lines if lines.is_empty() => anyhow!("it {}", outcome.ranks[0].end),
            lines => anyhow!("it {}: {lines}", outcome.ranks[0].end),
        });
        Ok(Ended { was_cut, complaint })
    }

    fn note(&mut self, summary: Summary, traffic: Option<Traffic>, misses: Option<u64>, was_cut: bool) {
        const LINE: f64 = 64.0;
        // The program's own word about its memory leaves out how it was started.
        let own = traffic.and_then(|traffic| traffic.memory_to_communication.zip(traffic.memory_is_measured));
        let counted = misses.map(|misses| (misses as f64 * LINE / summary.bytes_sent.max(1) as f64, true));
        let tried = Tried {
            runs: 0,
            was_cut,
            memory: own.or(counted),
            utilisation: traffic.and_then(|traffic| traffic.network_utilisation),
            summary,
        };
        if self.best.as_ref().is_none_or(|best| best.summary.rate() < tried.summary.rate()) {
            self.best = Some(tried);
        }
    }

    /// The results.
    pub(super) fn finish(self) -> Result<Tried> {
        let Self { placement, runs, best, failure, .. } = self;
        match (best, failure) {
            (_, Some(failure)) => Err(failure),
            (None, None) => bail!("there was no time to try it"),
            (Some(best), None) if best.summary.placement != placement.name() => {
                bail!("the program says that it went {} all the same", best.summary.placement)
            }
            (Some(best), None) => Ok(Tried { runs, ..best }),
        }
    }
}

/// How a run ended.
struct Ended {
    was_cut: bool,
    complaint: Option<anyhow::Error>,
}

fn last_lines(said: &[String]) -> String {
    said[said.len().saturating_sub(3)..].join("; ")
}

/// Ends a process when its time is up.
struct Timer {
    is_over: mpsc::Sender<()>,
    thread: std::thread::JoinHandle<bool>,
}

impl Timer {
    fn start(pid: Pid, limit: Duration) -> Result<Self> {
        // By a descriptor, so that it can never hit another process that gets the number later.
        let process = pidfd_open(pid, PidfdFlags::empty()).context("cannot watch the program")?;
        let (is_over, over) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let is_up = |limit| over.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            let was_cut = is_up(limit);
            if was_cut {
                // Each fails only if it has ended already.
                let _ = pidfd_send_signal(&process, Signal::TERM);
                if is_up(2 * GRACE) {
                    let _ = pidfd_send_signal(&process, Signal::KILL);
                }
            }
            was_cut
        });
        Ok(Self { is_over, thread })
    }

    /// The process has ended. Returns whether its time was up.
    fn stop(self) -> bool {
        drop(self.is_over);
        self.thread.join().unwrap_or(false)
    }
}
