//! What the pager asks of the memory that it works on, and of the process that it works in.
//!
//! The types of addresses carry what memory safety needs: a [`FrameSpan`] lies inside a buffer that is mapped, and a [`Place`]
//! inside a region that stays mapped while the lock lives under which the place was found. So nothing here is unsafe to call.
//! Which bytes belong at which place is the pager's business.

use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;

use outboard_contract::memory::{Buffer, Window};
use outboard_wire::Time;

use super::losses::Loss;
use super::pages::Cell;

/// Addresses of this process, whatever is mapped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: usize,
    /// How many.
    pub len: usize,
}

/// Addresses of a region, of one chunk at most. They are mapped and belong to the region as long as `'a`.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    span: Span,
    lock: PhantomData<&'a Cell>,
}

impl<'a> Place<'a> {
    /// The caller has found under the lock of `_cell` that the region of these addresses is not closing. Nobody unmaps a
    /// region before it has had every such lock after it began to close.
    pub(super) fn new(span: Span, _cell: &'a Cell) -> Self {
        Self { span, lock: PhantomData }
    }

    /// Where it begins.
    #[inline]
    pub fn start(self) -> usize {
        self.span.start
    }

    /// How many bytes it has.
    #[inline]
    pub fn len(self) -> usize {
        self.span.len
    }

    /// Whether it has none. It always has some.
    pub fn is_empty(self) -> bool {
        self.span.len == 0
    }

    /// Its addresses, for what can be done to any.
    #[inline]
    pub fn span(self) -> Span {
        self.span
    }

    /// A part of it.
    ///
    /// # Panics
    /// If it is not inside.
    pub fn part(self, part: Span) -> Self {
        let end = |span: Span| span.start + span.len;
        assert!(self.span.start <= part.start && end(part) <= end(self.span), "{part:?} is not in {self:?}");
        Self { span: part, ..self }
    }
}

/// A frame, or a part of one: memory of the buffer that pages are moved from and to.
#[derive(Clone, Copy, Debug)]
pub struct FrameSpan<'a> {
    buffer: &'a Buffer,
    at: usize,
    len: usize,
}

impl<'a> FrameSpan<'a> {
    /// `len` bytes of a buffer.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline]
    pub fn new(buffer: &'a Buffer, at: usize, len: usize) -> Self {
        assert!(at.checked_add(len).is_some_and(|end| end <= buffer.len()), "{at}..+{len} of {buffer:?}");
        Self { buffer, at, len }
    }

    /// The buffer that it is a part of.
    #[inline]
    pub fn buffer(self) -> &'a Buffer {
        self.buffer
    }

    /// Where it begins in the buffer.
    #[inline]
    pub fn at(self) -> usize {
        self.at
    }

    /// Its address.
    #[inline]
    pub fn start(self) -> usize {
        self.buffer.start().addr().get() + self.at
    }

    /// How many bytes it has.
    #[inline]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// A part of it.
    ///
    /// # Panics
    /// If it is not inside.
    #[inline]
    pub fn part(self, from: usize, len: usize) -> Self {
        assert!(from.checked_add(len).is_some_and(|end| end <= self.len), "{from}..+{len} of {self:?}");
        Self { at: self.at + from, len, ..self }
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> Window<'a> {
        self.buffer.window().part(self.at, self.len)
    }

    /// Fills it with zeros.
    pub(super) fn clear(self) {
        const ZEROS: [u8; 512] = [0; 512];
        let mut window = self.buffer.window_mut().part(self.at, self.len);
        for from in (0..self.len).step_by(ZEROS.len()) {
            window.write(from, &ZEROS[..ZEROS.len().min(self.len - from)]);
        }
    }
}

/// A range of addresses for an object. It is given back when this is dropped.
pub struct AddressRange {
    span: Span,
    _kept: Box<dyn Any + Send + Sync>,
}

impl AddressRange {
    /// The addresses that `kept` stands for.
    pub fn new(span: Span, kept: Box<dyn Any + Send + Sync>) -> Self {
        Self { span, _kept: kept }
    }

    /// Which addresses.
    pub fn span(&self) -> Span {
        self.span
    }
}

impl fmt::Debug for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.span, f)
    }
}

/// Why a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It read a page that is not there.
    Read,
    /// It wrote to a page that is not there.
    Write,
    /// It wrote to a page that is write-protected.
    Protected,
}

/// A thread waits at an address until its page is there, or it is woken for another reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where.
    pub address: usize,
    /// Why.
    pub cause: Cause,
}

/// A range was taken away from far memory by a system call of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which addresses.
    pub range: Range<usize>,
    /// Where they are now, if they are anywhere.
    pub moved_to: Option<usize>,
}

/// What one look at a space has found.
#[derive(Debug)]
pub struct Faults {
    /// The faults that wait, in order.
    pub list: Vec<Fault>,
    /// The first range that was taken away.
    pub change: Option<Change>,
    /// Whether there may be more.
    pub is_full: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Self { list: Vec::with_capacity(Self::MAX), change: None, is_full: false }
    }
}

impl Faults {
    /// How many faults there is room for without an allocation.
    pub const MAX: usize = 16;
}

/// Why a chunk could not be moved out.
#[derive(Debug)]
pub enum Held {
    /// The kernel holds its pages for somebody; later perhaps.
    Busy,
    /// Some of its pages were thrown away.
    Torn(io::Error),
    /// Something is wrong.
    Failed(io::Error),
}

/// What a process does for the pager that works in it.
pub trait Process {
    /// While it lives, no signal handler interrupts this thread.
    type Uninterrupted;

    /// Lets signals to this thread wait. Whoever takes locks of fault threads in a thread of the application has one: a
    /// handler that touched far memory would wait for a fault thread that waits for the lock.
    fn uninterrupted(&self) -> Self::Uninterrupted;

    /// The time, in a turn that began at `turn`.
    fn time(&self, turn: Time) -> Time;

    /// Something has happened that a thread of the application may wait for.
    fn announce(&self);

    /// Tells those who listen that regions are lost for good.
    fn lost(&self, loss: Loss);

    /// Says something where people look, without what a fault thread must not use.
    fn say(&self, text: &str);

    /// Ends the process in good order, as its settings say.
    fn end(&self, why: &str) -> !;

    /// Ends the process for a mistake that it cannot survive.
    fn abort(&self, why: &str) -> !;
}

/// Memory whose page faults are ours.
pub trait PageSpace: Process {
    /// The size of a page.
    fn page_bytes(&self) -> usize;

    /// Whether no store is made to a chunk while it leaves its region.
    fn stops_stores(&self) -> bool;

    /// Whether pages can be made to raise a signal.
    fn can_poison(&self) -> bool;

    /// Makes `count` frames, none of which has memory yet.
    fn make_frames(&self, frame_bytes: usize, count: usize) -> io::Result<Buffer>;

    /// Makes a range of addresses. Touching it waits for an answer from now on.
    fn make_range(&self, len: usize) -> io::Result<AddressRange>;

    /// Takes what the kernel has to tell. Returns false if there is nothing.
    fn read_faults(&self, faults: &mut Faults) -> bool;

    /// Moves a full frame to an absent place and wakes those who wait there; they can store there if it `is_writable`.
    fn move_in(&self, frame: FrameSpan<'_>, place: Place<'_>, is_writable: bool) -> io::Result<()>;

    /// Moves a chunk out of its region into its empty frame. When it returns, no store can reach the bytes.
    fn move_out(&self, place: Place<'_>, frame: FrameSpan<'_>) -> Result<(), Held>;

    /// Makes stores to a chunk of a read-only region wait.
    fn protect(&self, place: Place<'_>);

    /// Lets a store to a page of a read-only region end as it does in any read-only memory.
    fn forbid(&self, page: Place<'_>);

    /// Takes [`forbid`](PageSpace::forbid) back, for pages can only be moved from and to where they can be written.
    fn permit(&self, place: Place<'_>);

    /// Lets those who wait there try again.
    fn wake(&self, span: Span);

    /// Makes absent pages raise a signal where they are touched, and wakes those who wait there. Returns false if that cannot
    /// be.
    fn poison(&self, span: Span) -> bool;

    /// Whether pages that should be there are not, because they were thrown away. Those raise a signal from now on, once
    /// those who wait there are woken. A kernel that cannot do that does not tell.
    fn has_hole(&self, place: Place<'_>) -> bool;

    /// Whether all pages are in memory. Those that were swapped out are not, no more than those that were thrown away.
    fn is_present(&self, place: Place<'_>) -> bool;

    /// Gives the memory of a frame back to the system.
    fn discard_frame(&self, frame: FrameSpan<'_>);

    /// Throws away what is at a place. Those who touch it wait for it to be fetched.
    fn discard(&self, place: Place<'_>);

    /// What is at a chunk's place and in its frame, for the report of a move that failed.
    fn survey(&self, place: Place<'_>, frame: FrameSpan<'_>) -> String;
}
