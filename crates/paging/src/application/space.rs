//! The memory that the pager works on and the process that it works in, as traits.
//!
//! The types of addresses carry what memory safety needs: a [`FrameSpan`] lies inside a buffer that is mapped, and a [`Place`]
//! inside a region that stays mapped while the lock lives under which the place was found. So nothing here is unsafe to call.
//! Which bytes belong at which place is the pager's business.

use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;

use outboard_contract::memory::{Buffer, Window};
use outboard_wire::Time;

use super::chunks::ChunkKey;
use super::losses::ServerLoss;
use super::pages::Cell;
use super::region::PagedRegion;

/// An address of this process, whatever is mapped there. It is a number to compare: memory is reached by a [`Place`] or a
/// [`FrameSpan`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessAddress(usize);

impl ProcessAddress {
    /// The address of this number.
    #[inline]
    pub const fn new(address: usize) -> Self {
        Self(address)
    }

    /// As a number.
    #[inline]
    pub const fn get(self) -> usize {
        self.0
    }

    /// The address so many bytes behind it.
    #[inline]
    pub const fn plus(self, bytes: usize) -> Self {
        Self(self.0 + bytes)
    }

    /// How many bytes it is behind `start`, which is no higher.
    #[inline]
    pub const fn since(self, start: Self) -> usize {
        self.0 - start.0
    }

    /// The page that it lies in.
    #[inline]
    pub const fn page(self, page_bytes: usize) -> Span {
        Span { start: Self(self.0 & !(page_bytes - 1)), len: page_bytes }
    }
}

impl fmt::Debug for ProcessAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ProcessAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Addresses of this process, whatever is mapped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first.
    pub start: ProcessAddress,
    /// How many.
    pub len: usize,
}

impl Span {
    /// The address behind its last.
    #[inline]
    pub const fn end(self) -> ProcessAddress {
        self.start.plus(self.len)
    }

    /// Whether an address is one of these.
    #[inline]
    pub fn contains(self, address: ProcessAddress) -> bool {
        self.start <= address && address < self.end()
    }
}

/// Addresses of a region, of one chunk at most. They are mapped and belong to the region as long as `'a`.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    span: Span,
    lock: PhantomData<&'a Cell>,
}

impl<'a> Place<'a> {
    /// Where a chunk or a page of a region lies, unless that is closing. A region that is not stays mapped while a lock of its far memory
    /// is held: [`unmap`](super::Pages::unmap) takes every one of them after it has begun to close.
    ///
    /// # Panics
    /// If the lock is that of other far memory.
    pub(super) fn of(region: &PagedRegion, key: ChunkKey, cell: &'a Cell) -> Option<Self> {
        assert!(cell.shard.is_of(&region.home), "region {} is of other far memory", region.number());
        let place = Self { span: region.span_of(key), lock: PhantomData };
        (!region.is_closing()).then_some(place)
    }

    /// Where it begins.
    #[inline]
    pub fn start(self) -> ProcessAddress {
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
        let is_inside = self.span.start <= part.start && part.end() <= self.span.end();
        assert!(is_inside, "{part:?} is not in {self:?}");
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
    pub(super) fn new(buffer: &'a Buffer, at: usize, len: usize) -> Self {
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
    pub fn start(self) -> ProcessAddress {
        ProcessAddress(self.buffer.start().addr().get() + self.at)
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
    pub address: ProcessAddress,
    /// Why.
    pub cause: Cause,
}

/// A range was taken away from far memory by a system call of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which addresses.
    pub span: Span,
    /// Where they are now, if they are anywhere.
    pub moved_to: Option<ProcessAddress>,
}

/// The finding of one look at a space.
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
    /// The kernel holds its pages for another use; later perhaps.
    Busy,
    /// Some of its pages were thrown away.
    Torn(io::Error),
    /// Something is wrong.
    Failed(io::Error),
}

/// The services of a process for the pager that works in it.
pub trait Process {
    /// While it lives, no signal handler interrupts this thread.
    type Uninterrupted;

    /// Lets signals to this thread wait. Code that takes locks of fault threads in a thread of the application has one: a
    /// handler that touched far memory would wait for a fault thread that waits for the lock.
    fn uninterrupted(&self) -> Self::Uninterrupted;

    /// The time, in a turn that began at `turn`.
    fn time(&self, turn: Time) -> Time;

    /// Something has happened that a thread of the application may wait for.
    fn announce(&self);

    /// Has a fault thread look for what was left to it.
    fn call(&self) {}

    /// Lets other threads of the process run.
    fn give_way(&self) {}

    /// Has the thread that serves forked children look for copies to make.
    fn tell_keeper(&self) {}

    /// Tells those who listen that regions are lost for good.
    fn lost(&self, loss: ServerLoss);

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

    /// Moves a full frame to an absent place, whatever may be done there, and wakes those who wait there; they can store there if it `is_writable`.
    fn move_in(&self, frame: FrameSpan<'_>, place: Place<'_>, is_writable: bool) -> io::Result<()>;

    /// Moves a chunk out of its region into its empty frame. When it returns, no store can reach the bytes. The region may be written
    /// if it `is_writable`.
    fn move_out(&self, place: Place<'_>, frame: FrameSpan<'_>, is_writable: bool) -> Result<(), Held>;

    /// Makes stores to a chunk of a read-only region wait.
    fn protect(&self, place: Place<'_>);

    /// Lets a store to a page of a read-only region end as it does in any read-only memory.
    fn forbid(&self, page: Place<'_>);

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

    /// The state of a chunk's place and of its frame, for the report of a move that failed.
    fn survey(&self, place: Place<'_>, frame: FrameSpan<'_>) -> String;
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use outboard_wire::paging::CacheMode;
    use outboard_wire::{Generation, Grant, Incarnation, RegionId, RegionKey, Rights};

    use super::super::chunks::{Pool, Shard, SizeClass};
    use super::super::{Path, RegionSpec, Stripes};
    use super::*;

    const CHUNK: usize = 1 << 16;

    fn region(pool: &Arc<Pool>) -> PagedRegion {
        let size = 2 * CHUNK as u64;
        let grant = Grant {
            region: RegionId(1),
            generation: Generation(1),
            key: RegionKey([1; 16]),
            rights: Rights::READ,
            size,
        };
        let spec = RegionSpec {
            name: "object".to_owned(),
            object: "object".to_owned(),
            grant,
            at: 0,
            server: Incarnation(1),
            store: outboard_wire::StoreId::NONE,
            stripes: Stripes::WHOLE,
            epoch: 1,
            class: SizeClass(16),
            writable: true,
            is_fresh: false,
            is_kept: true,
            path: Path::Direct,
            cache: CacheMode::Dynamic,
        };
        let span = Span { start: ProcessAddress::new(1 << 30), len: 2 * CHUNK };
        let range = AddressRange::new(span, Box::new(()));
        PagedRegion::new((Arc::clone(pool), 1), spec, Arc::new(range), (SizeClass(12), 0), false)
    }

    #[test]
    fn places_are_found_under_locks_of_their_own_far_memory_until_their_region_closes() {
        let pool = || Arc::new(Pool::new(8 * CHUNK, 8 * CHUNK, 1));
        let (ours, others) = (pool(), pool());
        let (cell, other) = (Cell::new(Shard::of(ours.clone())), Cell::new(Shard::of(others)));
        let region = region(&ours);
        let key = region.key(1);
        let place = region.place(key, &cell).expect("it is open");
        assert_eq!((place.start().since(region.start()), place.len()), (CHUNK, CHUNK));
        assert_eq!(place.part(place.start().plus(5000).page(4096)).start().since(place.start()), 4096);
        let outside = AssertUnwindSafe(|| place.part(region.start().page(4096)));
        catch_unwind(outside).expect_err("it is of another chunk");
        catch_unwind(AssertUnwindSafe(|| region.place(key, &other).is_some())).expect_err("another lock");
        region.begin_closing();
        assert!(region.place(key, &cell).is_none());
        assert_eq!(region.span_of(key.of_page(3)).start.since(region.start()), CHUNK + 3 * 4096);
    }
}
