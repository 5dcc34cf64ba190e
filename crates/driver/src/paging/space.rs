//! Address ranges whose page faults are ours, and the frames that pages come from and go to: what the pager asks of memory, done
//! by the kernel.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::io;
use std::sync::{Arc, Condvar, Mutex};

use outboard_link::Clock;
use outboard_link::memory::Buffer;
use outboard_paging::application::{
    AddressRange, CHUNK_MAX, Cause, Change, Fault, Faults, FrameSpan, Held, PAGE, PageSpace, Place, Span,
};
use outboard_userfaultfd::{self as kernel, Features, Messages, Route, Stopped, Userfaultfd, Wake, Watch};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};

use super::losses::Bulletin;
use super::mapping::Mapping;
use super::page_map::PageMap;

/// How often an operation that the kernel is too busy for is tried again before the chunk counts as held.
const ATTEMPTS_MAX: usize = 1000;

/// How pages get in and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// `UFFDIO_MOVE`.
    Move,
    /// `UFFDIO_COPY` in; protect, copy and throw away out.
    Copy,
}

/// How a space is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpaceConfig {
    /// How pages get in and out; default the best that the kernel has.
    pub mover: Option<Mover>,
    /// The NUMA node whose memory the buffer is made of; default wherever the kernel puts it.
    pub node: Option<u32>,
}

/// The userfaultfd of this process and what is done with it.
#[derive(Debug)]
pub struct Space {
    userfaultfd: Arc<Userfaultfd>,
    route: Route,
    mover: Mover,
    can_protect: bool,
    can_poison: bool,
    page_map: PageMap,
    node: Option<u32>,
    /// Which process this is the far memory of. A child has a copy of everything here, and no far memory.
    pub(super) process: u32,
    /// The clock of all fault threads.
    pub(super) clock: Clock,
    /// What has been lost for good.
    pub(super) bulletin: Bulletin,
    /// How often a save has ended, a region was opened somewhere, or the like.
    pub(super) news: (Mutex<u64>, Condvar),
}

impl Space {
    /// Gets a userfaultfd with all that this kernel offers.
    pub(super) fn open(SpaceConfig { mover, node }: SpaceConfig) -> Result<Self, Errno> {
        let (probe, route) = Userfaultfd::open_best()?;
        let there = probe.agree(Features::NONE)?;
        let userfaultfd = Userfaultfd::open(route)?;
        let wanted = [
            Features::PAGEFAULT_FLAG_WP,
            Features::MOVE,
            Features::POISON,
            Features::EVENT_UNMAP,
            Features::EVENT_REMAP,
        ];
        let bits = wanted.iter().map(|feature| feature.bits()).fold(0, |all, bit| all | bit) & there.bits();
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
            node,
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
    pub fn route(&self) -> Route {
        self.route
    }

    /// How pages get in and out.
    pub fn mover(&self) -> Mover {
        self.mover
    }

    /// Whether system calls can be given absent pages of far memory.
    pub fn serves_the_kernel(&self) -> bool {
        self.route.serves_the_kernel()
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
        match self.mover {
            // SAFETY: by the contract above.
            Mover::Move => unsafe { self.relocate(frame, place, len, wake) }.map_err(|stopped| stopped.errno),
            Mover::Copy => {
                // SAFETY: by the contract above.
                unsafe { self.copy_in(frame, place, len, wake)? };
                // Its memory is in the region now; twice it would be more than the buffer.
                // SAFETY: by the contract above.
                unsafe { throw_away(frame, len) }
            }
        }
    }

    /// # Safety
    ///
    /// As for [`bring_in`](Self::bring_in).
    unsafe fn copy_in(&self, frame: usize, place: usize, len: usize, wake: Wake) -> Result<(), Errno> {
        let mut done = 0;
        for _ in 0..ATTEMPTS_MAX {
            // SAFETY: by the contract above; a place that is not absent is refused.
            match unsafe { self.userfaultfd.copy(frame + done, place + done, len - done, false, wake) } {
                Ok(()) => return Ok(()),
                Err(Stopped { done: more, errno: Errno::AGAIN }) => done += more,
                Err(Stopped { errno, .. }) => return Err(errno),
            }
        }
        Err(Errno::AGAIN)
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
                // Linux 6.18 says so of pages that it has moved itself, and wakes nobody (see `page_map`).
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
                    self.wake(Span { start: to, len });
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
            (Errno::BUSY | Errno::AGAIN, Ok(())) => Err(Held::Busy),
            (_, Err(errno)) | (errno, Ok(())) => Err(held(errno)),
        }
    }

    /// # Safety
    ///
    /// As for [`take_out`](Self::take_out).
    unsafe fn copy_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        // A thread that reads a page that was thrown away waits for one that waits for this shard.
        if self.has_absent(Span { start: place, len }) {
            return Err(held(Errno::NOENT));
        }
        if self.can_protect {
            self.userfaultfd.protect(place, len).map_err(held)?;
        }
        // SAFETY: by the contract above; stores to the chunk wait, so its bytes are at rest.
        unsafe { ptr::copy_nonoverlapping(place as *const u8, frame as *mut u8, len) };
        // SAFETY: its bytes are in the frame; those who touch it wait for it to come back.
        let gone = unsafe { throw_away(place, len) };
        // Those who waited to store find it absent.
        let woken = self.userfaultfd.wake(place, len);
        gone.and(woken).map_err(held)
    }

    fn has_absent(&self, Span { start, len }: Span) -> bool {
        let page = rustix::param::page_size();
        let is_absent = |at| self.can_poison && self.userfaultfd.poison(at, page, Wake::Later).is_ok();
        (start..start + len).step_by(page).filter(|at| is_absent(*at)).count() > 0
    }
}

fn held(errno: Errno) -> Held {
    match errno {
        Errno::NOENT => Held::Torn(errno.into()),
        errno => Held::Failed(errno.into()),
    }
}

/// Gives the memory of pages back to the system.
///
/// # Safety
///
/// They are mapped by a space, and what is in them is not wanted.
unsafe fn throw_away(start: usize, len: usize) -> Result<(), Errno> {
    // SAFETY: by the contract above.
    unsafe { rustix::mm::madvise(start as *mut c_void, len, Advice::LinuxDontNeed) }
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
            unsafe { mapping.register(&self.userfaultfd, Watch::Protected)? };
        }
        let start = NonNull::new(mapping.start as *mut u8).ok_or(Errno::NOMEM)?;
        // SAFETY: the mapping is the buffer's owner, and no references into it are ever made.
        Ok(unsafe { Buffer::from_raw(start, mapping.len, Box::new(mapping)) })
    }

    fn make_range(&self, len: usize) -> io::Result<AddressRange> {
        let mut mapping = Mapping::new(len)?;
        let watch = if self.can_protect { Watch::MissingAndProtected } else { Watch::Missing };
        // SAFETY: nobody knows the address yet; whoever is told is told that touching it waits.
        unsafe { mapping.register(&self.userfaultfd, watch)? };
        let span = Span { start: mapping.start, len: mapping.len };
        Ok(AddressRange::new(span, Box::new(mapping)))
    }

    fn read_faults(&self, faults: &mut Faults) -> bool {
        let mut messages = Messages::default();
        // An error here leaves the faults where they are; there is none that a retry would not show again.
        let has_something = self.userfaultfd.read(&mut messages).unwrap_or(false);
        faults.list.clear();
        faults.list.extend(messages.faults().map(|kernel::Fault { address, cause }| {
            let cause = match cause {
                kernel::Cause::Read => Cause::Read,
                kernel::Cause::Write => Cause::Write,
                kernel::Cause::Protected => Cause::Protected,
            };
            Fault { address, cause }
        }));
        faults.change = messages.changes().next().map(|change| match change {
            kernel::Change::Unmapped { range } => Change { range, moved_to: None },
            kernel::Change::Moved { range, to } => Change { range, moved_to: Some(to) },
        });
        faults.is_full = messages.is_full();
        has_something
    }

    fn move_in(&self, frame: FrameSpan<'_>, place: Place<'_>, is_writable: bool) -> io::Result<()> {
        let (from, to, len) = (frame.start(), place.start(), place.len());
        let wake = if is_writable { Wake::Now } else { Wake::Later };
        // SAFETY: frames are mapped by this space, and places while they are known. What is in the frame is the chunk, which
        // nobody looks for there once it is in its place.
        unsafe { self.bring_in(from, to, len, wake)? };
        if !is_writable {
            // Those who wait go on when stores are stopped.
            self.protect(place);
            self.wake(place.span());
        }
        Ok(())
    }

    fn move_out(&self, place: Place<'_>, frame: FrameSpan<'_>) -> Result<(), Held> {
        // SAFETY: frames are mapped by this space, and places while they are known; the frame of a chunk that is in its place
        // holds nothing.
        unsafe { self.take_out(place.start(), frame.start(), place.len()) }
    }

    fn protect(&self, place: Place<'_>) {
        if self.can_protect {
            // It is refused for memory that is not registered, where nobody stores.
            let _ = self.userfaultfd.protect(place.start(), place.len());
        }
    }

    fn forbid(&self, page: Place<'_>) {
        let start = page.start() as *mut c_void;
        // SAFETY: takes a right away from memory of ours that is meant to be read only.
        let _ = unsafe { rustix::mm::mprotect(start, page.len(), MprotectFlags::READ) };
        self.wake(page.span());
    }

    fn permit(&self, place: Place<'_>) {
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: gives back a right that the mapping was made with.
        let _ = unsafe { rustix::mm::mprotect(place.start() as *mut c_void, place.len(), rights) };
    }

    fn wake(&self, span: Span) {
        // Only ranges that are not registered are refused, and nobody waits there.
        let _ = self.userfaultfd.wake(span.start, span.len);
    }

    fn poison(&self, span: Span) -> bool {
        if !self.can_poison {
            return false;
        }
        let poisoned = self.userfaultfd.poison(span.start, span.len, Wake::Now);
        self.wake(span);
        // What is there already is poisoned already, or good.
        matches!(poisoned, Ok(()) | Err(Stopped { errno: Errno::EXIST, .. }))
    }

    fn has_hole(&self, place: Place<'_>) -> bool {
        self.has_absent(place.span())
    }

    fn is_present(&self, place: Place<'_>) -> bool {
        let mut pages = [0_u8; CHUNK_MAX / PAGE];
        let count = place.len() / rustix::param::page_size();
        assert!(count <= pages.len(), "{place:?} is more than a chunk");
        // SAFETY: only looks, and writes one byte for each page of the place.
        let looked = unsafe { libc::mincore(place.start() as *mut c_void, place.len(), pages.as_mut_ptr()) };
        looked == 0 && pages[..count].iter().all(|page| page & 1 == 1)
    }

    fn discard_frame(&self, frame: FrameSpan<'_>) {
        // SAFETY: frames are mapped by this space, and the pager has no use for what is in this one.
        let _ = unsafe { throw_away(frame.start(), frame.len()) };
    }

    fn discard(&self, place: Place<'_>) {
        // SAFETY: places are mapped while they are known; those who touch the chunk wait until it has been fetched.
        let _ = unsafe { throw_away(place.start(), place.len()) };
    }

    fn survey(&self, place: Place<'_>, frame: FrameSpan<'_>) -> String {
        let (place, len) = (place.start(), place.len());
        let (Some(here), Some(there)) =
            (self.page_map.count(place, len), self.page_map.count(frame.start(), len))
        else {
            return "/proc/self/pagemap cannot be read".to_owned();
        };
        let is_clear = frame.bytes().words(len / 8).all(|word| word == 0);
        let holding = if is_clear { "zeros" } else { "other bytes than zeros" };
        let all = len / rustix::param::page_size();
        format!("of its {all} pages, {here} are in the place and {there} in the buffer, where {holding} are")
    }
}
