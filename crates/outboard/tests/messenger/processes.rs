//! Ranks as processes: the test's own program, started anew.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use outboard::{MessagesPlacement, MessengerOptions};
use outboard_wire::JobId;

use crate::team::{Team, Way, small};

/// How long anything may take on a busy machine that has no deadline of its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How long a rank may be away on a link by TCP: longer than a busy machine lets one wait for a processor.
pub(crate) const DEADLINE: Duration = Duration::from_secs(4);

const VARIABLE: &str = "OUTBOARD_TEST_RANK";

/// The part of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Sends to all until one is lost, then to the rest.
    SendUntilOneIsLost,
    /// Sends a little and comes to the end.
    SendALittle,
}

/// The instructions of a process.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) act: Act,
    pub(crate) job: JobId,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) way: Way,
    pub(crate) seed: u64,
}

impl Part {
    /// The instructions of all ranks of a job.
    pub(crate) fn all(act: Act, ranks: u32, way: Way, seed: u64) -> Vec<Self> {
        let Team { job, .. } = Team::new(ranks, way, small());
        (0..ranks).map(|rank| Self { act, job, rank, ranks, way, seed }).collect()
    }

    pub(crate) fn options() -> MessengerOptions {
        MessengerOptions { deadline: PATIENCE, placement: MessagesPlacement::Inline, ..small() }
    }

    /// The ranks that this one is one of.
    pub(crate) fn team(&self) -> Team<'static> {
        let mut team = Team::new(self.ranks, self.way, Self::options()).adjusted(|_, settings, _| {
            settings.link.heartbeat = DEADLINE / 10;
            settings.link.deadline = DEADLINE;
        });
        team.job = self.job;
        team
    }

    fn to_text(self) -> String {
        let (act, way) = (self.act == Act::SendALittle, self.way == Way::Tcp);
        let numbers = [act.into(), self.job.0, self.rank.into(), self.ranks.into(), way.into(), self.seed];
        numbers.map(|number: u64| number.to_string()).join(" ")
    }

    fn from_text(text: &str) -> Option<Self> {
        let numbers: Vec<u64> = text.split(' ').map_while(|word| word.parse().ok()).collect();
        let [act, job, rank, ranks, way, seed] = numbers[..] else { return None };
        Some(Self {
            act: if act == 1 { Act::SendALittle } else { Act::SendUntilOneIsLost },
            job: JobId(job),
            rank: rank as u32,
            ranks: ranks as u32,
            way: if way == 1 { Way::Tcp } else { Way::Shm },
            seed,
        })
    }

    pub(crate) fn start(self, variables: &[(&str, &Path)]) -> Process {
        let mut command = outboard_child::again();
        command.env(VARIABLE, self.to_text()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Process { child, lines, said: Vec::new() }
    }
}

/// Plays the part of this process, if it was started for one.
pub(crate) fn act_as_told() {
    let Some(part) = std::env::var(VARIABLE).ok().and_then(|text| Part::from_text(&text)) else { return };
    match part.act {
        Act::SendUntilOneIsLost => crate::kill::act(part),
        Act::SendALittle => crate::report::act(part),
    }
}

/// A rank and what it has said so far. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Process {
    /// The rest of the next line that has this in it.
    #[track_caller]
    pub(crate) fn await_line(&mut self, start: &str) -> String {
        let until = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.said.push(line.clone());
            if let Some((_, rest)) = line.split_once(start) {
                return rest.to_owned();
            }
        }
        panic!("“{start}” did not come: {:?}", self.said);
    }

    /// Ends it, as nothing else does so suddenly.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits until it ends by itself.
    #[track_caller]
    pub(crate) fn exit(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        // Its output ends with it.
        while let Ok(line) = self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            self.said.push(line);
        }
        assert!(Instant::now() < until, "it does not end: {:?}", self.said);
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
