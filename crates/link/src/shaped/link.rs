//! A link behind a slower wire.

use outboard_wire::{FrameHead, Time};
use rustix::io::Errno;

use super::Wire;
use super::operations::{Issued, Operations};
use super::pace::Pace;
use super::queue::FrameQueue;
use crate::memory::WindowMut;
use crate::{
    Backlog, Capabilities, Counters, Disposition, Frame, FrameSendError, Link, LinkError, Loss, OneSided,
    Peer, WaitOn,
};

/// A link that looks as slow as a [`Wire`]; see the [module](super).
pub struct Shaped<L> {
    pub(super) inner: L,
    wire: Wire,
    pub(super) capabilities: Capabilities,
    /// The time that `progress` was told last.
    pub(super) now: Time,
    out: Pace,
    frames: FrameQueue,
    pub(super) operations: Operations<L>,
    /// The link beneath has no room for what comes out of the wire; it will wake us when it has.
    is_blocked: bool,
    full: u64,
    /// Nothing can be sent any more. What has arrived can still be received.
    pub(super) severed: Option<LinkError>,
    /// This side has closed the link; the reason is still to be told if the link beneath had no room for all.
    farewell: Option<String>,
    is_closed: bool,
}

/// The least that the wire holds, beside twice what fits between its ends.
const QUEUE_BYTES_MIN: u64 = 1 << 20;
/// The most that is set aside for the wire unless asked for.
const QUEUE_BYTES_MAX: u64 = 1 << 26;
/// How many one-sided operations can be on the wire.
const OPERATIONS_MAX: usize = 1024;

impl<L: Link> Shaped<L> {
    /// Wraps `inner`. The wire holds twice what fits between its ends, at least 1 MiB and at most 64 MiB; the
    /// same again is set aside for the data of one-sided writes.
    pub fn new(inner: L, wire: Wire) -> Result<Self, Errno> {
        let between = u128::from(wire.bandwidth.bytes_per_second()) * wire.latency.as_nanos() / 1_000_000_000;
        let twice = u64::try_from(between.saturating_mul(2)).unwrap_or(u64::MAX);
        Self::with_queue(inner, wire, twice.clamp(QUEUE_BYTES_MIN, QUEUE_BYTES_MAX) as usize)
    }

    /// Wraps `inner` with a wire that holds `queue_bytes`, rounded up to a power of two and to what one frame
    /// needs. What is sent beyond that is [`FrameSendError::Full`].
    pub fn with_queue(inner: L, wire: Wire, queue_bytes: usize) -> Result<Self, Errno> {
        let beneath = *inner.capabilities();
        let max_operations = beneath.max_operations.clamp(1, OPERATIONS_MAX);
        let operations = Operations::new(&wire, max_operations, queue_bytes)?;
        let capabilities = Capabilities {
            name: shaped_name(beneath.name),
            // Nothing behind a wire is complete when the call returns.
            one_sided: OneSided::Served,
            max_access: beneath.max_access.min(operations.data_capacity()),
            max_operations,
            ..beneath
        };
        Ok(Self {
            frames: FrameQueue::new(queue_bytes, beneath.max_payload)?,
            inner,
            wire,
            capabilities,
            now: Time::ZERO,
            out: Pace::new(wire.bandwidth),
            operations,
            is_blocked: false,
            full: 0,
            severed: None,
            farewell: None,
            is_closed: false,
        })
    }

    /// The wire that is imitated.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// How many flushed frames and one-sided requests are still on the wire.
    pub fn queued(&self) -> usize {
        self.frames.queued() + self.operations.queued()
    }

    /// The link beneath, without what is still on the wire.
    pub fn into_inner(self) -> L {
        self.inner
    }

    /// Why nothing new is sent.
    pub(super) fn check(&self) -> Result<(), LinkError> {
        if self.is_closed {
            return Err(LinkError { peer: self.peer().clone(), loss: Loss::ClosedHere });
        }
        self.severed.clone().map_or(Ok(()), Err)
    }

    /// Puts what was begun or flushed since the last time on the wire. Operations go first: a frame flushed after
    /// a write never overtakes it.
    fn put_on_wire(&mut self) {
        let (out, latency, now) = (&mut self.out, self.wire.latency, self.now);
        self.operations.stamp(|bytes| out.occupy(now, bytes) + latency);
        self.frames.stamp(|bytes| out.occupy(now, bytes) + latency);
    }

    /// When the next thing comes out of the wire, and whether it is an operation.
    fn next_out(&self) -> Option<(Time, bool)> {
        match (self.operations.first_release(), self.frames.first_release()) {
            (Some(operation), Some(frame)) if operation <= frame => Some((operation, true)),
            (_, Some(frame)) => Some((frame, false)),
            (operation, None) => operation.map(|operation| (operation, true)),
        }
    }

    /// Hands what comes out of the wire by `until` to the link beneath.
    fn release(&mut self, until: Time) -> bool {
        let (mut released, mut frames) = (0, 0);
        self.is_blocked = false;
        while let Some((at, is_operation)) = self.next_out() {
            if at > until || self.severed.is_some() {
                break;
            }
            if !if is_operation { self.release_operation() } else { self.release_frame() } {
                break;
            }
            released += 1;
            frames += usize::from(!is_operation);
        }
        self.operations.close_regions(&mut self.inner);
        if frames > 0
            && let Err(lost) = self.inner.flush()
        {
            self.sever(lost);
        }
        released > 0
    }

    fn release_operation(&mut self) -> bool {
        match self.operations.issue_first(&mut self.inner, self.now) {
            Issued::Begun => true,
            Issued::NoRoom => {
                self.is_blocked = true;
                false
            }
            Issued::Lost(lost) => {
                self.sever(lost);
                false
            }
        }
    }

    fn release_frame(&mut self) -> bool {
        let Some(front) = self.frames.front() else { return false };
        let len = front.payload.len();
        match self.inner.reserve(front.head, len) {
            Ok(mut place) => place.write_window(0, front.payload),
            Err(FrameSendError::Full) => {
                self.is_blocked = true;
                return false;
            }
            Err(FrameSendError::Lost(lost)) => {
                self.sever(lost);
                return false;
            }
            Err(FrameSendError::TooLong { len, max }) => {
                unreachable!("a frame of {len} bytes was let in although {max} is the limit")
            }
        }
        self.inner.commit(len);
        self.frames.pop();
        true
    }

    /// Nothing goes out any more. The link beneath reports the loss itself once all that arrived is taken.
    fn sever(&mut self, lost: LinkError) {
        self.is_blocked = false;
        self.frames.clear();
        self.operations.abandon(&lost);
        self.severed.get_or_insert(lost);
    }

    /// The last steps of a link that is closed here: hands over what was flushed, then the reason.
    fn linger(&mut self) -> Result<bool, LinkError> {
        let over = self.check();
        if self.severed.is_none() {
            self.release(Time::MAX);
        }
        // Where this side has closed the link it is told so, whatever else happens to it.
        let _ = self.inner.progress(self.now);
        self.operations.collect(&mut self.inner, self.now);
        if self.queued() == 0
            && let Some(reason) = self.farewell.take()
        {
            self.inner.close(&reason);
            if let Err(closed) = &over {
                self.sever(closed.clone());
            }
        }
        over.map(|()| false)
    }

    fn note<T>(&mut self, result: Result<T, LinkError>) -> Result<T, LinkError> {
        if let Err(lost) = &result {
            self.sever(lost.clone());
        }
        result
    }
}

impl<L: Link> Link for Shaped<L> {
    fn peer(&self) -> &Peer {
        self.inner.peer()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn backlog(&mut self) -> Backlog {
        self.inner.backlog()
    }

    fn counters(&self) -> Counters {
        // The link beneath was asked again and again for room on behalf of one sender.
        Counters { full: self.full, ..self.inner.counters() }
    }

    fn reserve(&mut self, head: FrameHead, len: usize) -> Result<WindowMut<'_>, FrameSendError> {
        let max = self.capabilities.max_payload;
        self.check()?;
        if len > max {
            return Err(FrameSendError::TooLong { len, max });
        }
        if !self.frames.has_room(len) {
            self.full += 1;
            // There will be room only once what fills the queue leaves.
            self.frames.flush();
            return Err(FrameSendError::Full);
        }
        self.frames.reserve(head, len).ok_or(FrameSendError::Full)
    }

    fn commit(&mut self, len: usize) {
        self.frames.commit(len);
    }

    fn flush(&mut self) -> Result<(), LinkError> {
        self.check()?;
        self.frames.flush();
        Ok(())
    }

    fn receive<F>(&mut self, max_frames: usize, sink: F) -> Result<usize, LinkError>
    where
        F: FnMut(Frame<'_>) -> Disposition,
    {
        let received = self.inner.receive(max_frames, sink);
        self.note(received)
    }

    fn progress(&mut self, now: Time) -> Result<bool, LinkError> {
        self.now = self.now.max(now);
        if self.is_closed {
            return self.linger();
        }
        self.put_on_wire();
        let mut moved = self.release(self.now);
        let progressed = self.inner.progress(now);
        moved |= self.note(progressed)?;
        moved |= self.operations.collect(&mut self.inner, self.now);
        if self.is_blocked && moved {
            self.release(self.now);
        }
        Ok(moved)
    }

    fn next_deadline(&self) -> Option<Time> {
        let unstamped = self.frames.has_unstamped() || self.operations.has_unstamped();
        let times = [
            self.inner.next_deadline(),
            unstamped.then_some(self.now),
            self.next_out().filter(|_| !self.is_blocked).map(|(at, _)| at),
            self.operations.first_return(),
        ];
        times.into_iter().flatten().min()
    }

    fn prepare_to_wait(&mut self) -> bool {
        let unstamped = self.frames.has_unstamped() || self.operations.has_unstamped();
        let has_returned = self.operations.first_return().is_some_and(|due| due <= self.now);
        !unstamped && !has_returned && self.inner.prepare_to_wait()
    }

    fn polled(&mut self, has_something: bool) {
        self.inner.polled(has_something);
    }

    fn wait_on(&self) -> Option<WaitOn<'_>> {
        self.inner.wait_on()
    }

    fn close(&mut self, reason: &str) {
        if self.is_closed {
            return;
        }
        self.put_on_wire();
        self.is_closed = true;
        self.farewell = Some(reason.to_owned());
        // The error is for those who use the link after this.
        let _ = self.linger();
    }
}

/// A shaped link is never taken for the one beneath.
fn shaped_name(beneath: &str) -> &'static str {
    match beneath {
        "shm" => "shaped shm",
        "tcp" => "shaped tcp",
        "loopback" => "shaped loopback",
        _ => "shaped",
    }
}
