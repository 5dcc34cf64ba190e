//! Address ranges whose page faults are ours, and the frames that pages come from and go to: what the pager asks of memory, done
//! by the kernel.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use outboard_link::Clock;
use outboard_link::memory::Buffer;
use outboard_paging::application::{
    AddressRange, CHUNK_MAX, Cause, Change, Fault, Faults, FrameSpan, Held, PAGE, PageSpace, Place,
    ProcessAddress, Span,
};
use outboard_userfaultfd::{
    self as kernel, DescriptorSource, FaultWatch, Features, KernelMessages, Stopped, Userfaultfd, Wake,
};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};

use super::arrivals::Arrivals;
use super::bell::Bell;
use super::choice::{Facts, FaultChoice};
use super::copying::{OwnMemory, by_mappings, set_rights, throw_away};
use super::losses::Bulletin;
use super::mapping::Mapping;
use super::page_map::PageMap;
use super::signal;
use super::uninterrupted::is_blocked_here;

/// How often an operation that the kernel is too busy for is tried again before the chunk counts as held.
pub(super) const ATTEMPTS_MAX: usize = 1000;

/// How pages get in and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// `UFFDIO_MOVE`, where rights allow it; else as with `Copy`.
    Move,
    /// `UFFDIO_COPY` in; protect, copy and throw away out.
    Copy,
}

/// Which thread answers a page fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultAnswer {
    /// The one that touches absent memory, where that takes nothing from the program: its chunks can be copied from here, and
    /// system calls would fail anyway. Otherwise one of the library's own.
    #[default]
    Auto,
    /// One of the library's own. System calls that are given absent far memory wait for it too, with privilege.
    Threads,
    /// The one that touches absent memory, in a handler of SIGBUS. System calls that are given it fail with `EFAULT`.
    Signal,
}

/// How a space is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceConfig {
    /// How pages get in and out; default the best that the kernel has.
    pub mover: Option<Mover>,
    /// The NUMA node whose memory the buffer is made of; default wherever the kernel puts it.
    pub node: Option<u32>,
    /// Which thread answers a page fault; default what fits.
    pub faults: FaultAnswer,
    /// Whether some chunks come by links.
    pub needs_links: bool,
    /// Whether this process is to be taken for one without the privilege to have system calls wait.
    pub is_unprivileged: bool,
    /// Whether a child that is forked sees far memory as it was then.
    pub snapshots: bool,
}

/// The userfaultfd of this process and what is done with it.
#[derive(Debug)]
pub struct Space {
    userfaultfd: Arc<Userfaultfd>,
    route: DescriptorSource,
    mover: Mover,
    pub(super) can_protect: bool,
    can_poison: bool,
    page_map: PageMap,
    pub(super) own_memory: OwnMemory,
    node: Option<u32>,
    choice: FaultChoice,
    /// How threads that answer their own faults meet fault threads; none if they do not.
    pub(super) arrivals: Option<Arrivals>,
    /// The bell of the thread that serves forked children, if they see far memory.
    pub(super) keeper: Option<Bell>,
    /// Whether pages may be shared with a child that was forked.
    has_forked: AtomicBool,
    /// Which process this is the far memory of. A child has a copy of everything here, and no far memory.
    pub(super) process: u32,
    /// The clock of all fault threads.
    pub(super) clock: Clock,
    /// The ranges that have been lost for good.
    pub(super) bulletin: Bulletin,
    /// How often a save has ended, a region was opened somewhere, or the like.
    pub(super) news: (Mutex<u64>, Condvar),
}

impl Space {
    /// Gets a userfaultfd with all that this kernel offers.
    pub(super) fn open(config: SpaceConfig) -> Result<Self, Errno> {
        let SpaceConfig { mover, node, faults, needs_links, is_unprivileged, snapshots } = config;
        let (probe, route) = match is_unprivileged {
            true => Userfaultfd::open(DescriptorSource::UserModeOnly)
                .map(|probe| (probe, DescriptorSource::UserModeOnly))?,
            false => Userfaultfd::open_best()?,
        };
        let there = probe.agree(Features::NONE)?;
        let userfaultfd = Userfaultfd::open(route)?;
        let wanted = [
            Features::PAGEFAULT_FLAG_WP,
            Features::MOVE,
            Features::POISON,
            Features::EVENT_UNMAP,
            Features::EVENT_REMAP,
        ];
        // Without poison a handler could not tell what is lost from what is absent.
        let can_signal =
            signal::IS_POSSIBLE && there.contains(Features::SIGBUS) && there.contains(Features::POISON);
        let serves_the_kernel = route.serves_the_kernel();
        let is_blocked = is_blocked_here(libc::SIGBUS);
        let choice =
            FaultChoice::of(faults, &Facts { can_signal, needs_links, serves_the_kernel, is_blocked });
        let in_place = choice.answer == FaultAnswer::Signal;
        let wanted = wanted.into_iter().chain(in_place.then_some(Features::SIGBUS));
        let bits = wanted.map(Features::bits).fold(0, |all, bit| all | bit) & there.bits();
        userfaultfd.agree(Features::from_bits(bits))?;
        let can = |feature| there.contains(feature);
        let best =
            if can(Features::MOVE) && can(Features::PAGEFAULT_FLAG_WP) { Mover::Move } else { Mover::Copy };
        Ok(Self {
            userfaultfd: Arc::new(userfaultfd),
            route,
            mover: mover.unwrap_or(best),
            can_protect: can(Features::PAGEFAULT_FLAG_WP),
            can_poison: can(Features::POISON),
            page_map: PageMap::open(),
            own_memory: OwnMemory::open(),
            node,
            choice,
            arrivals: in_place.then(Arrivals::new).transpose()?,
            keeper: snapshots.then(Bell::new).transpose()?,
            has_forked: AtomicBool::new(false),
            process: std::process::id(),
            clock: Clock::start(),
            bulletin: Bulletin::default(),
            news: (Mutex::new(0), Condvar::new()),
        })
    }

    pub(super) fn userfaultfd(&self) -> &Userfaultfd {
        &self.userfaultfd
    }

    /// How the userfaultfd was got.
    pub fn route(&self) -> DescriptorSource {
        self.route
    }

    /// Whether this is the process whose far memory it is, and not one that it has forked.
    pub fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    /// The process whose far memory it is.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Pages may be shared with a child from now on.
    pub(super) fn has_forked(&self) {
        self.has_forked.store(true, Ordering::Release);
    }

    /// The size of a page.
    pub fn page(&self) -> usize {
        rustix::param::page_size()
    }

    /// How pages get in and out.
    pub fn mover(&self) -> Mover {
        self.mover
    }

    /// Whether system calls can be given absent pages of far memory.
    pub fn serves_the_kernel(&self) -> bool {
        self.route.serves_the_kernel() && self.arrivals.is_none()
    }

    /// Which thread answers a page fault, and why.
    pub fn faults(&self) -> FaultChoice {
        self.choice
    }

    /// Brings `len` bytes from a frame to a place.
    ///
    /// # Safety
    ///
    /// Both are mapped by this space, and the bytes of the frame are of no other use.
    pub(super) unsafe fn bring_in(
        &self,
        frame: usize,
        place: usize,
        len: usize,
        wake: Wake,
    ) -> Result<(), Errno> {
        let mut done = 0;
        if self.mover == Mover::Move {
            // SAFETY: by the contract above.
            match unsafe { self.relocate(frame, place, len, wake) } {
                Ok(()) => return Ok(()),
                // The rights of the place are others than those of frames.
                Err(Stopped { done: more, errno: Errno::INVAL }) => done = more,
                Err(Stopped { errno, .. }) => return Err(errno),
            }
        }
        // SAFETY: by the contract above.
        unsafe { self.copy_in(frame + done, place + done, len - done, wake) }
    }

    /// Moves pages from a frame to a place or back.
    ///
    /// # Safety
    ///
    /// Both are mapped by this space.
    unsafe fn relocate(&self, from: usize, to: usize, len: usize, wake: Wake) -> Result<(), Stopped> {
        let mut done = 0;
        let mut is_denied = false;
        for _ in 0..ATTEMPTS_MAX {
            // SAFETY: by the contract above; those who use the chunk wait for it to come, and a destination that is not empty
            // is refused.
            match unsafe { self.userfaultfd.relocate(from + done, to + done, len - done, wake) } {
                Ok(()) => done = len,
                Err(Stopped { done: more, errno: Errno::AGAIN }) => done += more,
                // Linux 6.18 says so of pages that it has moved itself, and wakes no thread (see `page_map`).
                Err(Stopped { done: more, errno: Errno::EXIST }) => {
                    done += more;
                    let moved = self.page_map.moved(from + done, to + done, len - done);
                    if moved == 0 {
                        return Err(Stopped { done, errno: Errno::EXIST });
                    }
                    done += moved;
                    is_denied = true;
                }
                Err(Stopped { done: more, errno }) => return Err(Stopped { done: done + more, errno }),
            }
            if done == len {
                if is_denied && wake == Wake::Now {
                    self.wake(Span { start: ProcessAddress::new(to), len });
                }
                return Ok(());
            }
        }
        Err(Stopped { done, errno: Errno::AGAIN })
    }

    /// Takes `len` bytes from a place into a frame. When it returns, no store can reach them.
    ///
    /// # Safety
    ///
    /// Both are mapped by this space, and what is in the frame is of no use.
    pub(super) unsafe fn take_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        if self.mover == Mover::Copy {
            // SAFETY: by the contract above.
            return unsafe { self.copy_out(place, frame, len) };
        }
        // SAFETY: by the contract above.
        let Err(Stopped { done, errno: failed }) = (unsafe { self.relocate(place, frame, len, Wake::Later) })
        else {
            return Ok(());
        };
        // A part of it may be out already: put it back, so that the chunk is whole again.
        // SAFETY: by the contract above.
        let back = if done > 0 { unsafe { self.bring_in(frame, place, done, Wake::Now) } } else { Ok(()) };
        match (failed, back) {
            // The rights of the place are others than those of frames.
            // SAFETY: by the contract above.
            (Errno::INVAL, Ok(())) => unsafe { self.copy_out(place, frame, len) },
            (Errno::BUSY | Errno::AGAIN, Ok(())) => Err(Held::Busy),
            (_, Err(errno)) | (errno, Ok(())) => Err(held(errno)),
        }
    }

    /// Whether the page map tells that all pages are there, which is quicker than to try them.
    pub(super) fn is_whole(&self, start: usize, len: usize) -> bool {
        self.page_map.count(start, len) == Some(len / rustix::param::page_size())
    }

    /// Whether pages are absent. Those raise SIGBUS from now on.
    ///
    /// # Safety
    ///
    /// They are mapped by this space, and those that are absent will not be brought.
    pub(super) unsafe fn has_absent(&self, start: usize, len: usize) -> bool {
        let page = rustix::param::page_size();
        // SAFETY: by the contract above.
        let poisons = |at| unsafe { self.userfaultfd.poison(at, page, Wake::Later) }.is_ok();
        let is_absent = |at| self.can_poison && poisons(at);
        (start..start + len).step_by(page).filter(|at| is_absent(*at)).count() > 0
    }
}

pub(super) fn held(errno: Errno) -> Held {
    match errno {
        Errno::NOENT => Held::Torn(errno.into()),
        errno => Held::Failed(errno.into()),
    }
}

impl PageSpace for Space {
    #[inline]
    fn page_bytes(&self) -> usize {
        rustix::param::page_size()
    }

    fn stops_stores(&self) -> bool {
        self.mover == Mover::Move || self.can_protect
    }

    fn can_poison(&self) -> bool {
        self.can_poison
    }

    fn make_frames(&self, frame_bytes: usize, count: usize) -> io::Result<Buffer> {
        let mut mapping = Mapping::new(frame_bytes * count)?;
        if let Some(node) = self.node {
            mapping.prefer_node(node)?;
        }
        if self.mover == Mover::Move {
            // SAFETY: only stores to protected pages would wait, and no page of a frame is ever protected. Pages can
            // be moved to registered memory alone.
            unsafe { mapping.register(&self.userfaultfd, FaultWatch::Protected)? };
        }
        let start = NonNull::new(mapping.start as *mut u8).ok_or(Errno::NOMEM)?;
        // SAFETY: the mapping is the buffer's owner, and no references into it are ever made.
        Ok(unsafe { Buffer::from_raw(start, mapping.len, Box::new(mapping)) })
    }

    fn make_range(&self, len: usize) -> io::Result<AddressRange> {
        let mut mapping = Mapping::new(len)?;
        let watch = if self.can_protect { FaultWatch::MissingAndProtected } else { FaultWatch::Missing };
        // SAFETY: no thread knows the address yet; one that is told of it is told that touching it waits.
        unsafe { mapping.register(&self.userfaultfd, watch)? };
        let span = Span { start: ProcessAddress::new(mapping.start), len: mapping.len };
        Ok(AddressRange::new(span, Box::new(mapping)))
    }

    fn read_faults(&self, faults: &mut Faults) -> bool {
        if let Some(arrivals) = &self.arrivals {
            arrivals.hear();
        }
        let mut messages = KernelMessages::default();
        // An error here leaves the faults where they are; there is none that a retry would not show again.
        let has_something = self.userfaultfd.read(&mut messages).unwrap_or(false);
        faults.list.clear();
        faults.list.extend(messages.faults().map(|kernel::KernelFault { address, cause }| {
            let cause = match cause {
                kernel::KernelFaultCause::Read => Cause::Read,
                kernel::KernelFaultCause::Write => Cause::Write,
                kernel::KernelFaultCause::Protected => Cause::Protected,
            };
            Fault { address: ProcessAddress::new(address), cause }
        }));
        faults.change = messages.changes().next().map(|change| {
            let (range, moved_to) = match change {
                kernel::KernelChange::Unmapped { range } => (range, None),
                kernel::KernelChange::Moved { range, to } => (range, Some(ProcessAddress::new(to))),
            };
            Change { span: Span { start: ProcessAddress::new(range.start), len: range.len() }, moved_to }
        });
        faults.is_full = messages.is_full();
        has_something
    }

    fn move_in(&self, frame: FrameSpan<'_>, place: Place<'_>, is_writable: bool) -> io::Result<()> {
        let (from, to, len) = (frame.start().get(), place.start().get(), place.len());
        let wake = if is_writable && self.arrivals.is_none() { Wake::Now } else { Wake::Later };
        // SAFETY: frames are mapped by this space, and places while they are known. What is in the frame is the chunk, which
        // no thread looks for there once it is in its place.
        unsafe { self.bring_in(from, to, len, wake)? };
        if !is_writable {
            // Those who wait go on when stores are stopped.
            self.protect(place);
        }
        if wake == Wake::Later {
            self.wake(place.span());
        }
        Ok(())
    }

    fn move_out(&self, place: Place<'_>, frame: FrameSpan<'_>, is_writable: bool) -> Result<(), Held> {
        let (from, to, len) = (place.start().get(), frame.start().get(), place.len());
        // SAFETY: frames are mapped by this space, and places while they are known; the frame of a chunk that is in its place
        // holds nothing.
        let taken = unsafe { self.take_out(from, to, len) };
        if !matches!(taken, Err(Held::Busy)) || !self.has_forked.load(Ordering::Acquire) {
            return taken;
        }
        // The kernel moves no page that a child has too, or had.
        if is_writable {
            // SAFETY: as above. Each page becomes this process's own, with the bytes that it has.
            let _ = unsafe { rustix::mm::madvise(from as *mut c_void, len, Advice::LinuxPopulateWrite) };
            // SAFETY: as above.
            return unsafe { self.take_out(from, to, len) };
        }
        // Bytes that are never written are the same wherever they lie, also for those who hold them to read them.
        // SAFETY: as above.
        unsafe { self.copy_out(from, to, len) }
    }

    fn protect(&self, place: Place<'_>) {
        if self.can_protect {
            // It is refused for memory that is not registered, where no thread stores.
            // SAFETY: places are mapped while they are known; a thread that stores there is answered by the pager.
            let _ = unsafe { self.userfaultfd.protect(place.start().get(), place.len()) };
        }
    }

    fn forbid(&self, page: Place<'_>) {
        // SAFETY: places are mapped while they are known.
        let _ = unsafe { set_rights(page.start().get(), page.len(), MprotectFlags::READ) };
        self.wake(page.span());
    }

    fn wake(&self, span: Span) {
        if let Some(arrivals) = &self.arrivals {
            return arrivals.tell();
        }
        // Only ranges that are not registered are refused, and no thread waits there.
        let _ = self.userfaultfd.wake(span.start.get(), span.len);
    }

    fn poison(&self, span: Span) -> bool {
        if !self.can_poison {
            return false;
        }
        // SAFETY: it is refused for all but ranges that this space has registered, which are the pager's: it says that what is
        // absent there will not be brought.
        let poison =
            |at, part| unsafe { self.userfaultfd.poison(span.start.plus(at).get(), part, Wake::Now) };
        let poisoned = by_mappings(span.len, poison);
        self.wake(span);
        // A page that is there already is poisoned, or good.
        matches!(poisoned, Ok(()) | Err(Errno::EXIST))
    }

    fn has_hole(&self, place: Place<'_>) -> bool {
        // SAFETY: places are mapped while they are known; the pager asks it of a chunk that should be there, and brings none that is.
        unsafe { self.has_absent(place.start().get(), place.len()) }
    }

    fn is_present(&self, place: Place<'_>) -> bool {
        let mut pages = [0_u8; CHUNK_MAX / PAGE];
        let count = place.len() / rustix::param::page_size();
        assert!(count <= pages.len(), "{place:?} is more than a chunk");
        // SAFETY: only looks, and writes one byte for each page of the place.
        let looked =
            unsafe { libc::mincore(place.start().get() as *mut c_void, place.len(), pages.as_mut_ptr()) };
        looked == 0 && pages[..count].iter().all(|page| page & 1 == 1)
    }

    fn discard_frame(&self, frame: FrameSpan<'_>) {
        // SAFETY: frames are mapped by this space, and the pager has no use for what is in this one.
        let _ = unsafe { throw_away(frame.start().get(), frame.len()) };
    }

    fn discard(&self, place: Place<'_>) {
        // SAFETY: places are mapped while they are known; those who touch the chunk wait until it has been fetched.
        let _ = unsafe { throw_away(place.start().get(), place.len()) };
    }

    fn survey(&self, place: Place<'_>, frame: FrameSpan<'_>) -> String {
        let (place, len) = (place.start().get(), place.len());
        let (Some(here), Some(there)) =
            (self.page_map.count(place, len), self.page_map.count(frame.start().get(), len))
        else {
            return "/proc/self/pagemap cannot be read".to_owned();
        };
        let is_clear = frame.bytes().words(len / 8).all(|word| word == 0);
        let holding = if is_clear { "zeros" } else { "other bytes than zeros" };
        let all = len / rustix::param::page_size();
        format!("of its {all} pages, {here} are in the place and {there} in the buffer, where {holding} are")
    }
}
