//! What the engine needs of the thing that moves its bytes.

use std::os::fd::BorrowedFd;

use outboard_wire::Time;
use rustix::io::Errno;

use crate::Loss;

/// What a stream had to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing at the moment.
    Nothing,
    /// Nothing ever again: the peer has stopped sending.
    End,
}

/// Bytes in both directions, in order. Nothing here blocks.
pub trait ByteStream {
    /// What people call links of this kind.
    const NAME: &'static str;

    /// Whether the connection stands, on the side that asked for it.
    fn is_connected(&mut self) -> Result<bool, Errno> {
        Ok(true)
    }

    /// Called once when the handshake is over and records begin.
    fn begin_records(&mut self) {}

    /// Takes some of `bytes` and says how many; zero if there is no room at the moment.
    fn send(&mut self, now: Time, bytes: &[u8]) -> Result<usize, Loss>;

    /// Fills the beginning of `into`, which is not empty, with what has arrived.
    fn receive(&mut self, now: Time, into: &mut [u8]) -> Result<Arrival, Loss>;

    /// Nothing more will be sent or read.
    fn finish(&mut self);

    /// What becomes readable when something arrives, if there is such a thing.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// When something will arrive, if the stream knows.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Asks the other side to wake this thread. Returns false if there is something to do already.
    fn prepare_to_wait(&mut self) -> bool {
        true
    }

    /// After which of `borders` borders between words, counted from one, a served read is to be torn in two: part
    /// is copied now, the rest later. Only links that exist for tests ever say yes.
    fn tear(&mut self, borders: usize) -> Option<usize> {
        let _ = borders;
        None
    }
}
