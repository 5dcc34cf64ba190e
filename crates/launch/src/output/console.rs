//! Shows lines on this process's own outputs.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use super::{Acceptance, OutputSource, Piece, Sink, Stream};

/// How a console shows where a line came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// `[2] text`, coloured on a terminal unless `NO_COLOR` is set. A piece that goes on with a line too long
    /// to be held begins with `[2]+ `.
    #[default]
    Prefixed,
    /// The lines alone, still whole.
    Plain,
    /// Every byte as it comes, at once: for a single process, with nothing to tell apart.
    Raw,
}

/// What a pipe that polls writable takes without blocking.
const WRITE_BYTES_MAX: usize = 4 << 10;
/// The bytes that a regular file takes at once; it never blocks.
const WRITE_TO_FILE_BYTES_MAX: usize = 256 << 10;

const COLOURS: [u8; 6] = [36, 33, 32, 35, 34, 31];

/// Shows lines on two descriptors, usually this process's standard output and error.
///
/// Clones share one queue, so several threads show whole lines without mixing them. It never blocks: what cannot
/// be written yet is kept, and the thread that feeds it waits, which in the end holds back the process that prints.
#[derive(Clone, Debug)]
pub struct Console {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    style: Style,
    outputs: [OwnedFd; 2],
    coloured: [bool; 2],
    /// Which queue serves a stream: the same one when both lead to the same place.
    queue_of: [usize; 2],
    queues: Mutex<[Queue; 2]>,
}

#[derive(Debug)]
struct Queue {
    bytes: Vec<u8>,
    written: usize,
    write_max: usize,
    closed: bool,
    /// Why output was lost, unless its reader has simply gone.
    failure: Option<Errno>,
}

impl Console {
    /// Shows lines on this process's standard output and standard error.
    pub fn stdio(style: Style) -> io::Result<Self> {
        let out = io::stdout().as_fd().try_clone_to_owned()?;
        let err = io::stderr().as_fd().try_clone_to_owned()?;
        Self::on(out, err, style)
    }

    /// Shows lines on two descriptors.
    pub fn on(out: OwnedFd, err: OwnedFd, style: Style) -> io::Result<Self> {
        let (out_stat, err_stat) = (fstat(&out)?, fstat(&err)?);
        let same = (out_stat.st_dev, out_stat.st_ino) == (err_stat.st_dev, err_stat.st_ino);
        let queue = |mode| Queue {
            bytes: Vec::new(),
            written: 0,
            write_max: match FileType::from_raw_mode(mode) {
                FileType::RegularFile => WRITE_TO_FILE_BYTES_MAX,
                _ => WRITE_BYTES_MAX,
            },
            closed: false,
            failure: None,
        };
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let shared = Shared {
            style,
            coloured: [colour && out.is_terminal(), colour && err.is_terminal()],
            queue_of: [0, if same { 0 } else { 1 }],
            queues: Mutex::new([queue(out_stat.st_mode), queue(err_stat.st_mode)]),
            outputs: [out, err],
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Shows a line of the launcher's own, between those of the processes.
    pub fn say(&mut self, stream: Stream, line: &str) {
        let queue = self.shared.queue_of[stream.index()];
        self.shared.lock()[queue].bytes.extend_from_slice(format!("{line}\n").as_bytes());
        self.flush();
    }

    /// Why some of the output could not be written, for example a full disk. A reader that has gone is no failure.
    pub fn failure(&self) -> Option<io::Error> {
        self.shared.lock().iter().find_map(|queue| queue.failure).map(io::Error::from)
    }
}

impl Shared {
    /// A panic elsewhere leaves whole lines in the queues, so they stay usable.
    fn lock(&self) -> MutexGuard<'_, [Queue; 2]> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Console {
    fn take(&mut self, piece: Piece<'_>) {
        let shared = &*self.shared;
        let index = piece.stream.index();
        let queue = &mut shared.lock()[shared.queue_of[index]];
        if queue.closed {
            return;
        }
        if shared.style == Style::Prefixed {
            queue.push_prefix(&piece, shared.coloured[index]);
        }
        queue.bytes.extend_from_slice(piece.bytes);
        // A piece shown between those of others has to end its line, or theirs would go on with it.
        if piece.ends_line || shared.style != Style::Raw {
            queue.bytes.push(b'\n');
        }
    }

    fn flush(&mut self) {
        let mut queues = self.shared.lock();
        for (queue, output) in queues.iter_mut().zip(&self.shared.outputs) {
            queue.flush(output.as_fd());
        }
    }

    fn acceptance(&self, stream: Stream) -> Acceptance<'_> {
        let index = self.shared.queue_of[stream.index()];
        let queue = &self.shared.lock()[index];
        match (queue.closed, queue.bytes.is_empty()) {
            (true, _) => Acceptance::Closed,
            (false, true) => Acceptance::Open,
            (false, false) => Acceptance::Blocked(self.shared.outputs[index].as_fd()),
        }
    }

    fn whole_lines(&self) -> bool {
        self.shared.style != Style::Raw
    }
}

impl Queue {
    fn push_prefix(&mut self, piece: &Piece<'_>, coloured: bool) {
        let colour = match piece.from {
            OutputSource::Rank(rank) => COLOURS[*rank as usize % COLOURS.len()],
            OutputSource::Named(_) => 90,
        };
        let (on, off) = if coloured { (format!("\x1b[0;{colour}m"), "\x1b[0m") } else { (String::new(), "") };
        let mark = if piece.starts_line { "" } else { "+" };
        let from = piece.from;
        // Writing to a vector cannot fail.
        let _ = write!(self.bytes, "{on}[{from}]{mark}{off} ");
    }

    /// Writes as much as goes without blocking, whatever the descriptor's mode: the descriptor is shared with
    /// other programs, so it must not be made non-blocking.
    fn flush(&mut self, output: BorrowedFd<'_>) {
        while self.written < self.bytes.len() && is_writable(output) {
            let end = self.bytes.len().min(self.written + self.write_max);
            match rustix::io::write(output, &self.bytes[self.written..end]) {
                Ok(len) => self.written += len,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => {
                    self.failure = (error != Errno::PIPE).then_some(error);
                    self.closed = true;
                    self.written = self.bytes.len();
                }
            }
        }
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(WRITE_TO_FILE_BYTES_MAX);
            self.written = 0;
        }
    }
}

/// Whether a write makes progress or fails at once.
fn is_writable(output: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(output, PollFlags::OUT)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&at_once)), Ok(ready) if ready > 0)
}
