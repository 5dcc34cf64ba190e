//! Frames from one process to another.

use std::os::fd::BorrowedFd;

use outboard_wire::{FrameHead, Time};

use crate::memory::{Window, WindowMut};
use crate::{Capabilities, Counters, FrameSendError, LinkError, Peer};

/// A frame that has arrived, still lying where the link received it.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What the sender said of it.
    pub head: FrameHead,
    /// Its bytes. On a shared-memory link the peer may still be changing them: copy first, then check.
    pub payload: Window<'a>,
}

/// What a receiver did with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It is dealt with; its place may be used again.
    Taken,
    /// There is no room for it now. It stays where it is, and everything behind it waits too: this is how
    /// back-pressure reaches the sender. A link with a deferred frame does not keep its owner awake: whatever made
    /// the owner defer it must wake it.
    Deferred,
}

/// What the queues of a link hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// How many bytes wait here for the peer to take them, or to send the rest.
    pub held: u64,
    /// How many have gone through so far.
    pub moved: u64,
}

/// What to sleep on when a link has nothing to do.
#[derive(Clone, Copy, Debug)]
pub struct WaitOn<'a> {
    /// Becomes readable when [`Link::progress`] would find something.
    pub descriptor: BorrowedFd<'a>,
    /// Whether becoming readable matters: not while a deferred frame is in the way of whatever could be read.
    pub readable: bool,
    /// Whether becoming writable matters as well, because bytes wait to be sent.
    pub writable: bool,
}

/// One end of a connection that carries frames in order, each once.
///
/// Nothing here blocks. Frames sent become visible to the peer at [`Link::flush`] at the latest; until then they
/// are a batch in the making. What the peer sent before it was lost is handed out before the loss is reported. A receiver that
/// defers it has some seconds to take it: room for answers to the dead never comes. A peer that breaks the protocol is
/// reported at once.
pub trait Link {
    /// Who is at the other end.
    fn peer(&self) -> &Peer;

    /// What this link can do.
    fn capabilities(&self) -> &Capabilities;

    /// What this link has done so far.
    fn counters(&self) -> Counters;

    /// What its queues hold. Nothing, where that is not known.
    fn backlog(&mut self) -> Backlog {
        Backlog::default()
    }

    /// Makes room for a frame of up to `len` bytes where the link will send it from. Write into the window,
    /// then [`commit`](Link::commit) at once: any other call in between may abandon it.
    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, FrameSendError>;

    /// Appends the reserved frame with its first `len` bytes to the batch.
    ///
    /// # Panics
    /// If nothing is reserved any more, or less than `len`.
    fn commit(&mut self, len: usize);

    /// Appends a frame with a copy of `payload` to the batch.
    #[inline]
    fn send(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), FrameSendError> {
        self.reserve(head, payload.len())?.write(0, payload);
        self.commit(payload.len());
        Ok(())
    }

    /// Appends copies of as many frames as can be sent, and returns how many; an error is about the first. Cheaper
    /// by the frame than [`send`](Link::send) where the link keeps its place in registers meanwhile.
    #[inline]
    fn send_batch<'a, I>(&mut self, frames: I) -> Result<usize, FrameSendError>
    where
        I: IntoIterator<Item = (FrameHead, &'a [u8])>,
    {
        let mut sent = 0;
        for (head, payload) in frames {
            match self.send(head, payload) {
                Ok(()) => sent += 1,
                Err(FrameSendError::Full | FrameSendError::TooLong { .. }) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Makes the batch visible to the peer and wakes it if it sleeps.
    fn flush(&mut self) -> Result<(), LinkError>;

    /// Hands out up to `max_frames` frames that have arrived. Returns how many were taken.
    fn receive<F>(&mut self, max_frames: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition;

    /// Does what is due: moves bytes, serves one-sided access, shows that it lives, looks whether the peer
    /// still does. Returns whether anything moved. `now` comes from one clock for the whole life of the link.
    fn progress(&mut self, now: Time) -> Result<bool, LinkError>;

    /// When [`progress`](Link::progress) must be called even if nothing arrives.
    fn next_deadline(&self) -> Option<Time>;

    /// Asks the peer to wake this side from now on. Returns false if there is something to do already, and
    /// then the caller must not sleep.
    fn prepare_to_wait(&mut self) -> bool;

    /// A thread that slept on [`wait_on`](Link::wait_on) has seen whether there is anything to read. If not, the next
    /// [`progress`](Link::progress) need not look for it.
    fn polled(&mut self, _has_something: bool) {}

    /// What to sleep on; `None` if there is nothing but [`next_deadline`](Link::next_deadline).
    fn wait_on(&self) -> Option<WaitOn<'_>>;

    /// Says goodbye. Frames flushed before are still delivered; the link cannot be used afterwards.
    fn close(&mut self, reason: &str);
}
