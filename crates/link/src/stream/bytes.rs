//! The stream beneath the engine, which moves its bytes.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use outboard_wire::{Rights, Time};
use rustix::io::Errno;

use super::reach::{Handle, Lent, Near, Reached};
use crate::memory::{Segment, Window, WindowMut};
use crate::{Loss, OneSided};

/// The arrivals that a stream had to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// This many bytes, at least one.
    Bytes(usize),
    /// Nothing at the moment.
    Nothing,
    /// Nothing ever again: the peer has stopped sending.
    End,
}

/// Three places that are filled one after the other.
pub struct Scatter<'a> {
    /// The bytes that come first.
    pub head: &'a mut [u8],
    /// The bytes that come then. Others may be looking at it meanwhile, so there is never a reference to it.
    pub body: WindowMut<'a>,
    /// The bytes that are left.
    pub rest: &'a mut [u8],
}

impl Scatter<'_> {
    /// How many bytes all of them take.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len() + self.rest.len()
    }

    /// Puts what a window shows where the bytes from `at` on belong. There must be room for them.
    pub fn write_window(&mut self, at: usize, bytes: Window<'_>) {
        let in_head = self.head.len().saturating_sub(at).min(bytes.len());
        if in_head > 0 {
            bytes.read(0, &mut self.head[at..at + in_head]);
        }
        let at = (at + in_head).saturating_sub(self.head.len());
        let in_body = self.body.len().saturating_sub(at).min(bytes.len() - in_head);
        if in_body > 0 {
            self.body.write_window(at, bytes.part(in_head, in_body));
        }
        let in_rest = bytes.len() - in_head - in_body;
        if in_rest > 0 {
            let at = at + in_body - self.body.len();
            bytes.read(in_head + in_body, &mut self.rest[at..at + in_rest]);
        }
    }

    /// Puts `bytes` where those from `at` on belong. There must be room for them.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let (in_head, bytes) = bytes.split_at(self.head.len().saturating_sub(at).min(bytes.len()));
        if !in_head.is_empty() {
            self.head[at..at + in_head.len()].copy_from_slice(in_head);
        }
        let at = (at + in_head.len()).saturating_sub(self.head.len());
        let (in_body, in_rest) = bytes.split_at(self.body.len().saturating_sub(at).min(bytes.len()));
        if !in_body.is_empty() {
            self.body.write(at, in_body);
        }
        if !in_rest.is_empty() {
            let at = at + in_body.len() - self.body.len();
            self.rest[at..at + in_rest.len()].copy_from_slice(in_rest);
        }
    }
}

/// Bytes in both directions, in order. Nothing here blocks.
pub trait ByteStream {
    /// The name of this kind of links, for people.
    const NAME: &'static str;

    /// The name of this one, for people.
    fn name(&self) -> &'static str {
        Self::NAME
    }

    /// Whether the connection stands, on the side that asked for it.
    fn is_connected(&mut self) -> Result<bool, Errno> {
        Ok(true)
    }

    /// Whether both sides know whom they are talking to, where that has to be found out first. Asked again until it
    /// is so, when the connection stands and something may have arrived.
    fn secure(&mut self) -> Result<bool, Loss> {
        Ok(true)
    }

    /// Whether [`secure`](ByteStream::secure) has nothing left to find out.
    fn is_secure(&self) -> bool {
        true
    }

    /// Called once when the handshake is over and records begin, with the deadline that the sides have agreed on.
    fn begin_records(&mut self, _deadline: Duration) {}

    /// Takes some of `bytes` and says how many; zero if there is no room at the moment.
    fn send(&mut self, now: Time, bytes: &[u8]) -> Result<usize, Loss>;

    /// Fills the beginning of `into`, which is not empty, with what has arrived.
    fn receive(&mut self, now: Time, into: &mut [u8]) -> Result<Arrival, Loss>;

    /// Whether long frames are better sent from where they lie, each by itself, than gathered in a queue first.
    const SENDS_STRAIGHT: bool = false;

    /// Sends two pieces, one after the other. `body` is read where it lies, and words of it that another process
    /// else writes meanwhile may be torn.
    fn send_gathered(&mut self, now: Time, head: &[u8], body: Window<'_>) -> Result<usize, Loss>;

    /// Fills the beginning of `into`, which is not empty, with what has arrived.
    fn receive_scattered(&mut self, now: Time, into: Scatter<'_>) -> Result<Arrival, Loss>;

    /// Nothing more will be sent or read.
    fn finish(&mut self);

    /// Whether the last attempt to receive took all there was, if the stream knows.
    fn is_drained(&self) -> bool {
        false
    }

    /// Whether something has arrived that the descriptor does not tell of any more.
    fn holds_back(&self) -> bool {
        false
    }

    /// The descriptor that becomes readable when something arrives, if there is one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// When something will arrive, if the stream knows.
    fn next_event(&self) -> Option<Time> {
        None
    }

    /// Asks the other side to wake this thread. Returns false if there is something to do already.
    fn prepare_to_wait(&mut self) -> bool {
        true
    }

    /// Whether the descriptor tells of everything at every moment, and not only to those who have prepared to wait.
    const DESCRIPTOR_TELLS: bool = true;

    /// Whether memory can be reached past the frames at all, so that handles of it mean something.
    #[doc(hidden)]
    const REACHES: bool = false;

    /// How the peer's memory is reached.
    fn one_sided(&self) -> OneSided {
        OneSided::Served
    }

    /// Lets the peer reach memory of ours with these rights, if it can be done.
    #[doc(hidden)]
    #[expect(private_interfaces)]
    fn lend(&mut self, memory: &Arc<Segment>, rights: Rights) -> Option<Lent> {
        let _ = (memory, rights);
        None
    }

    /// Begins an access to the peer's memory: which, from where and how long, and what is moved. Returns false if it
    /// has to go another way.
    #[doc(hidden)]
    #[expect(private_interfaces)]
    fn reach(&mut self, number: u16, far: (Handle, usize), near: Near<'_>) -> bool {
        let _ = (number, far, near);
        false
    }

    /// The next access that has ended.
    #[doc(hidden)]
    #[expect(private_interfaces)]
    fn reached(&mut self) -> Option<Reached> {
        None
    }

    /// The bytes that an access was to write that has ended, until it is forgotten.
    #[doc(hidden)]
    fn kept(&self, number: u16) -> Window<'_> {
        let _ = number;
        Window::from(&[][..])
    }

    /// An access that has ended needs its place no longer.
    #[doc(hidden)]
    fn forget(&mut self, number: u16) {
        let _ = number;
    }

    /// After which of `borders` borders between words, counted from one, a served read is to be torn in two: part
    /// is copied now, the rest later. Only links that exist for tests ever say yes.
    fn tear(&mut self, borders: usize) -> Option<usize> {
        let _ = borders;
        None
    }
}
