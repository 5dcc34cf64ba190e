//! Where lines go.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Who printed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OutputSource {
    /// A rank of a job.
    Rank(u32),
    /// A process with a name, such as the agent.
    Named(Arc<str>),
}

impl fmt::Display for OutputSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "{rank}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// Which of a process's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    pub(crate) const BOTH: [Self; 2] = [Self::Out, Self::Err];

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Out => 0,
            Self::Err => 1,
        }
    }
}

/// A line, or a piece of a line too long to be held as a whole. Any bytes except a newline.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Who printed it.
    pub from: &'a OutputSource,
    /// Where.
    pub stream: Stream,
    /// The text, without its newline.
    pub bytes: &'a [u8],
    /// Whether a line begins here; otherwise the source's last piece on this stream goes on.
    pub starts_line: bool,
    /// Whether a newline followed. Not so when a line goes on, or when the output ended without one.
    pub ends_line: bool,
}

/// Whether a sink takes more.
#[derive(Debug)]
pub enum Acceptance<'a> {
    /// It does.
    Open,
    /// Not before this descriptor is writable and [`Sink::flush`] was called.
    Blocked(BorrowedFd<'a>),
    /// Never again: the reader has gone.
    Closed,
}

/// Takes what processes print.
///
/// A closure over [`Piece`] is a sink that always takes more.
pub trait Sink {
    /// Takes one piece. It is called only while the sink is open, up to 16 KiB of text at a time.
    fn take(&mut self, piece: Piece<'_>);

    /// Passes on what it can without waiting; called after every batch of pieces.
    fn flush(&mut self) {}

    /// Whether it takes more of this stream. While it does not, the processes that print there have to wait.
    fn acceptance(&self, stream: Stream) -> Acceptance<'_> {
        let _ = stream;
        Acceptance::Open
    }

    /// Whether a line is held back until it is complete.
    fn whole_lines(&self) -> bool {
        true
    }
}

impl<F: FnMut(Piece<'_>)> Sink for F {
    fn take(&mut self, piece: Piece<'_>) {
        self(piece);
    }
}
