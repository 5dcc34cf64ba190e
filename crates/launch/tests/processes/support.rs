//! What the tests of real processes share.

use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use outboard_launch::{JobOutcome, Launch, OutputSource, Piece, Stream};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// No wait in these tests is meant to take anywhere near this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A job of shell scripts, all the same: `$RANK` tells them apart, `$DIR` is a folder of their own.
pub(crate) fn shell(script: &str, ranks: u32, folder: &Folder) -> Launch<'static> {
    let folder = folder.path().display().to_string();
    let env = move |rank: u32| vec![("RANK".into(), rank.to_string()), ("DIR".into(), folder.clone())];
    Launch::new("sh").args(["-c", script]).ranks(ranks).env(env)
}

/// Runs a job to its end and keeps what it printed.
pub(crate) fn run(launch: Launch<'_>) -> (JobOutcome, Printed) {
    let mut printed = Printed::default();
    let running = launch.start().unwrap();
    let outcome = running.wait(&mut |piece: Piece<'_>| printed.add(&piece), None).unwrap();
    (outcome, printed)
}

/// Everything that was printed, in order.
#[derive(Default)]
pub(crate) struct Printed(Vec<(OutputSource, Stream, Vec<u8>)>);

impl Printed {
    fn add(&mut self, piece: &Piece<'_>) {
        let mut bytes = piece.bytes.to_vec();
        if piece.ends_line {
            bytes.push(b'\n');
        }
        self.0.push((piece.from.clone(), piece.stream, bytes));
    }

    /// What one rank printed on one stream.
    pub(crate) fn of(&self, rank: u32, stream: Stream) -> Vec<u8> {
        let own = self.0.iter().filter(|(from, on, _)| (from, on) == (&OutputSource::Rank(rank), &stream));
        own.flat_map(|(_, _, bytes)| bytes.clone()).collect()
    }

    /// The standard output of one rank, as text.
    pub(crate) fn text(&self, rank: u32) -> String {
        String::from_utf8(self.of(rank, Stream::Out)).unwrap()
    }
}

/// A folder that goes with the test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("outboard-launch-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A folder with a pipe `go` in it: who reads from it waits for who writes to it.
    pub(crate) fn with_gate() -> Self {
        let folder = Self::new();
        let mode = rustix::fs::Mode::RWXU;
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("go"), pipe, mode, 0).unwrap();
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Whether a process, of whatever parent, ends in time.
pub(crate) fn ends(pid: u32) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_raw(pid.cast_signed()).unwrap(), PidfdFlags::empty()) else {
        return true;
    };
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The lines of a stream, as they come.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(stream: impl std::io::Read + Send + 'static) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                let Ok(line) = line else { break };
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self(receiver)
    }

    /// The next line that holds `part`, in time.
    pub(crate) fn with(&self, part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            match self.0.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => seen.push(line),
                Err(error) => panic!("no line with `{part}` ({error}), but: {seen:?}"),
            }
        }
    }

    /// The last word of the next line that holds `part`, a number.
    pub(crate) fn number_with(&self, part: &str) -> u32 {
        self.with(part).rsplit(' ').next().unwrap().parse().unwrap()
    }
}
