//! Standard input for one rank.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use crate::process::Other;

/// Which rank gets the launcher's standard input. All others read an empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StdinTo {
    /// No rank.
    #[default]
    NoRank,
    /// This rank. The launcher reads and passes on, since a rank, being in a process group of its own, may not
    /// read from the terminal.
    Rank(u32),
}

const BUFFER_BYTES: usize = 16 << 10;

/// Passes standard input on to one rank.
pub(super) struct StdinPump {
    input: OwnedFd,
    /// The writing end of the rank's standard input.
    output: OwnedFd,
    buffer: Vec<u8>,
    sent: usize,
}

impl StdinPump {
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        fcntl_setfl(&output, fcntl_getfl(&output)? | OFlags::NONBLOCK)?;
        Ok(Self { input, output, buffer: Vec::new(), sent: 0 })
    }

    /// What has to happen before `step`.
    pub(super) fn awaited(&self) -> Other<'_> {
        if self.sent < self.buffer.len() {
            Other { fd: self.output.as_fd(), flags: PollFlags::OUT }
        } else {
            Other { fd: self.input.as_fd(), flags: PollFlags::IN }
        }
    }

    /// Reads or writes once; false when the input has ended or the rank reads no more.
    pub(super) fn step(&mut self) -> bool {
        let moved = if self.sent < self.buffer.len() {
            rustix::io::write(&self.output, &self.buffer[self.sent..]).map(|len| self.sent += len)
        } else {
            self.sent = 0;
            self.buffer.resize(BUFFER_BYTES, 0);
            let read = rustix::io::read(&self.input, &mut self.buffer[..]);
            self.buffer.truncate(read.unwrap_or(0));
            match read {
                Ok(0) => return false,
                other => other.map(|_| ()),
            }
        };
        matches!(moved, Ok(()) | Err(Errno::AGAIN | Errno::INTR))
    }
}
