//! Address ranges whose page faults are ours, and the frames that pages come from and go to.

use core::ffi::c_void;
use core::ptr::{self, NonNull};
use std::sync::Arc;

use outboard_link::memory::Buffer;
use outboard_userfaultfd::{Features, Messages, Route, Stopped, Userfaultfd, Wake, Watch};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};

use super::fingerprint::PAGE;
use super::jobs::CHUNK_MAX;
use super::mapping::Mapping;
use super::page_map::PageMap;

/// How often an operation that the kernel is too busy for is tried again before the chunk counts as held.
const ATTEMPTS_MAX: usize = 1000;

/// Frames of one size, whose pages are moved into regions and back.
#[derive(Debug)]
pub(super) struct Pool {
    start: usize,
    frame_bytes: usize,
    frames: usize,
    buffer: Buffer,
}

impl Pool {
    /// Where a frame begins in [`buffer`](Pool::buffer).
    pub(super) fn offset(&self, slot: u32) -> usize {
        assert!((slot as usize) < self.frames, "frame {slot} of {}", self.frames);
        slot as usize * self.frame_bytes
    }

    /// Its address.
    pub(super) fn address(&self, slot: u32) -> usize {
        self.start + self.offset(slot)
    }

    /// All frames, for links to fill and to read from.
    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }
}

/// A region's place among this process's addresses. The kernel forgets its registration with it, and whoever waits
/// there goes on.
#[derive(Debug)]
pub(super) struct Range {
    mapping: Mapping,
}

impl Range {
    pub(super) fn start(&self) -> usize {
        self.mapping.start
    }

    pub(super) fn len(&self) -> usize {
        self.mapping.len
    }
}

/// How pages get in and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// `UFFDIO_MOVE`.
    Move,
    /// `UFFDIO_COPY` in; protect, copy and throw away out.
    Copy,
}

/// Why a chunk could not be moved out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// The kernel holds its pages for somebody; later perhaps.
    Busy,
    /// Something is wrong.
    Failed(Errno),
}

/// The userfaultfd of this process and what is done with it.
#[derive(Debug)]
pub(super) struct Space {
    userfaultfd: Arc<Userfaultfd>,
    route: Route,
    mover: Mover,
    can_protect: bool,
    can_poison: bool,
    page_map: PageMap,
}

impl Space {
    /// Gets a userfaultfd with all that this kernel offers.
    pub(super) fn open(mover: Option<Mover>) -> Result<Self, Errno> {
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
        })
    }

    pub(super) fn userfaultfd(&self) -> &Userfaultfd {
        &self.userfaultfd
    }

    pub(super) fn route(&self) -> Route {
        self.route
    }

    pub(super) fn mover(&self) -> Mover {
        self.mover
    }

    /// Whether no store is made to a chunk while it leaves its region.
    pub(super) fn stops_stores(&self) -> bool {
        self.mover == Mover::Move || self.can_protect
    }

    /// Takes what the kernel has to tell: faults that wait, and ranges that were taken away.
    pub(super) fn read(&self, messages: &mut Messages) -> bool {
        // An error here leaves the faults where they are; there is none that a retry would not show again.
        self.userfaultfd.read(messages).unwrap_or(false)
    }

    /// Makes a pool of `frames` frames, none of which has memory yet.
    pub(super) fn pool(&self, frame_bytes: usize, frames: usize, node: Option<u32>) -> Result<Pool, Errno> {
        let mut mapping = Mapping::new(frame_bytes * frames)?;
        if let Some(node) = node {
            mapping.prefer_node(node)?;
        }
        if self.mover == Mover::Move {
            // SAFETY: only stores to protected pages would wait, and no page of a pool is ever protected. Pages can
            // be moved to registered memory alone.
            unsafe { mapping.register(&self.userfaultfd, Watch::Protected)? };
        }
        let start = mapping.start;
        let at = NonNull::new(start as *mut u8).ok_or(Errno::NOMEM)?;
        // SAFETY: the mapping is the buffer's owner, and no references into it are ever made.
        let buffer = unsafe { Buffer::from_raw(at, mapping.len, Box::new(mapping)) };
        Ok(Pool { start, frame_bytes, frames, buffer })
    }

    /// Makes a place for a region. Touching it waits for an answer from now on.
    pub(super) fn range(&self, len: usize) -> Result<Range, Errno> {
        let mut mapping = Mapping::new(len)?;
        let watch = if self.can_protect { Watch::MissingAndProtected } else { Watch::Missing };
        // SAFETY: nobody knows the address yet; whoever is told is told that touching it waits.
        unsafe { mapping.register(&self.userfaultfd, watch)? };
        Ok(Range { mapping })
    }

    /// Moves a full frame into its absent place in the region and wakes whoever waits there.
    pub(super) fn move_in(&self, frame: usize, place: usize, len: usize) -> Result<(), Errno> {
        self.bring_in(frame, place, len, Wake::Now)
    }

    /// The same for a region that may only be read: whoever waits there goes on when stores to it are stopped.
    pub(super) fn move_in_protected(&self, frame: usize, place: usize, len: usize) -> Result<(), Errno> {
        self.bring_in(frame, place, len, Wake::Later)?;
        self.protect(place, len);
        self.wake(place, len);
        Ok(())
    }

    /// Makes stores to a chunk of a read-only region wait.
    pub(super) fn protect(&self, place: usize, len: usize) {
        if self.can_protect {
            // It is refused for memory that is not registered, where nobody stores.
            let _ = self.userfaultfd.protect(place, len);
        }
    }

    fn bring_in(&self, frame: usize, place: usize, len: usize, wake: Wake) -> Result<(), Errno> {
        match self.mover {
            Mover::Move => self.relocate(frame, place, len, wake).map_err(|stopped| stopped.errno),
            Mover::Copy => {
                self.copy_in(frame, place, len, wake)?;
                // Its memory is in the region now; twice it would be more than the buffer.
                self.discard(frame, len);
                Ok(())
            }
        }
    }

    fn copy_in(&self, frame: usize, place: usize, len: usize, wake: Wake) -> Result<(), Errno> {
        let mut done = 0;
        for _ in 0..ATTEMPTS_MAX {
            // SAFETY: the frame is full and its seat belongs to the caller; the place is registered and absent, and
            // whoever waits there waits for exactly this.
            match unsafe { self.userfaultfd.copy(frame + done, place + done, len - done, false, wake) } {
                Ok(()) => return Ok(()),
                Err(Stopped { done: more, errno: Errno::AGAIN }) => done += more,
                Err(Stopped { errno, .. }) => return Err(errno),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Moves pages from a frame to a place or back. The caller has the seat of both: what is moved is there, and where it
    /// goes is registered and empty.
    fn relocate(&self, from: usize, to: usize, len: usize, wake: Wake) -> Result<(), Stopped> {
        let mut done = 0;
        let mut is_denied = false;
        for _ in 0..ATTEMPTS_MAX {
            // SAFETY: by the contract above; whoever uses the chunk waits for it to come.
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
                    self.wake(to, len);
                }
                return Ok(());
            }
        }
        Err(Stopped { done, errno: Errno::AGAIN })
    }

    /// Moves a chunk out of the region into its empty frame. When it returns, no store can reach the bytes.
    pub(super) fn move_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        match self.mover {
            Mover::Move => self.relocate_out(place, frame, len),
            Mover::Copy => self.copy_out(place, frame, len),
        }
    }

    fn relocate_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        let Err(Stopped { done, errno: failed }) = self.relocate(place, frame, len, Wake::Later) else {
            return Ok(());
        };
        // A part of it may be out already: put it back, so that the chunk is whole again.
        let back = if done > 0 { self.move_in(frame, place, done) } else { Ok(()) };
        match (failed, back) {
            (Errno::BUSY | Errno::AGAIN, Ok(())) => Err(Held::Busy),
            (_, Err(errno)) | (errno, Ok(())) => Err(Held::Failed(errno)),
        }
    }

    fn copy_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        // Whoever reads a page that was thrown away waits for one who waits for this shard.
        if self.has_hole(place, len) {
            return Err(Held::Failed(Errno::NOENT));
        }
        if self.can_protect {
            self.userfaultfd.protect(place, len).map_err(Held::Failed)?;
        }
        // SAFETY: both ranges are mapped by us; stores to the chunk wait, so its bytes are at rest.
        unsafe { ptr::copy_nonoverlapping(place as *const u8, frame as *mut u8, len) };
        // SAFETY: its bytes are in the frame; whoever touches it waits for it to come back.
        let gone = unsafe { rustix::mm::madvise(place as *mut c_void, len, Advice::LinuxDontNeed) };
        // Those who waited to store find it absent.
        let woken = self.userfaultfd.wake(place, len);
        gone.and(woken).map_err(Held::Failed)
    }

    /// Lets a store to a page of a read-only region end as it does in any read-only memory.
    pub(super) fn forbid(&self, page: usize, len: usize) {
        // SAFETY: takes a right away from memory of ours that is meant to be read only.
        let _ = unsafe { rustix::mm::mprotect(page as *mut c_void, len, MprotectFlags::READ) };
        self.wake(page, len);
    }

    /// Takes [`forbid`](Space::forbid) back, for pages can only be moved from where they can be written.
    pub(super) fn permit(&self, place: usize, len: usize) {
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: gives back a right that the mapping was made with.
        let _ = unsafe { rustix::mm::mprotect(place as *mut c_void, len, rights) };
    }

    /// Lets whoever waits there try again.
    pub(super) fn wake(&self, place: usize, len: usize) {
        // Only ranges that are not registered are refused, and nobody waits there.
        let _ = self.userfaultfd.wake(place, len);
    }

    /// Makes an absent chunk raise SIGBUS where it is touched. Returns false if this kernel cannot.
    pub(super) fn poison(&self, place: usize, len: usize) -> bool {
        if !self.can_poison {
            return false;
        }
        let poisoned = self.userfaultfd.poison(place, len, Wake::Now);
        self.wake(place, len);
        // What is there already is poisoned already, or good.
        matches!(poisoned, Ok(()) | Err(Stopped { errno: Errno::EXIST, .. }))
    }

    /// Whether this kernel can make pages raise SIGBUS.
    pub(super) fn can_poison(&self) -> bool {
        self.can_poison
    }

    /// Whether pages that should be there are not, because somebody has thrown them away. Those raise SIGBUS from now on,
    /// once whoever waits there is woken. A kernel that cannot do that does not tell.
    pub(super) fn has_hole(&self, place: usize, len: usize) -> bool {
        let page = rustix::param::page_size();
        let is_absent = |at| self.can_poison && self.userfaultfd.poison(at, page, Wake::Later).is_ok();
        (place..place + len).step_by(page).filter(|at| is_absent(*at)).count() > 0
    }

    /// Whether all pages are in memory. Those that were swapped out are not, no more than those that were thrown away.
    pub(super) fn is_in_memory(&self, place: usize, len: usize) -> bool {
        let mut pages = [0_u8; CHUNK_MAX / PAGE];
        let count = len / rustix::param::page_size();
        assert!(count <= pages.len(), "{len} bytes are more than a chunk");
        // SAFETY: only looks, and writes one byte for each page of the span.
        let looked = unsafe { libc::mincore(place as *mut c_void, len, pages.as_mut_ptr()) };
        looked == 0 && pages[..count].iter().all(|page| page & 1 == 1)
    }

    /// What is at a chunk's place and in its frame, for the report of a move that failed.
    pub(super) fn survey(&self, place: usize, frame: usize, len: usize) -> String {
        let (Some(here), Some(there)) = (self.page_map.count(place, len), self.page_map.count(frame, len))
        else {
            return "/proc/self/pagemap cannot be read".to_owned();
        };
        // SAFETY: frames are mapped and never protected, and this process ends.
        let is_clear = (frame..frame + len).all(|at| unsafe { ptr::read_volatile(at as *const u8) } == 0);
        let holding = if is_clear { "zeros" } else { "other bytes than zeros" };
        let all = len / rustix::param::page_size();
        format!("of its {all} pages, {here} are in the place and {there} in the buffer, where {holding} are")
    }

    /// Fills a part of a frame with zeros.
    pub(super) fn clear(&self, start: usize, len: usize) {
        // SAFETY: the caller has the seat of this frame, and nobody else reads or writes there.
        unsafe { ptr::write_bytes(start as *mut u8, 0, len) };
    }

    /// Gives the memory of a frame, or of a chunk that can be fetched again, back to the system.
    pub(super) fn discard(&self, start: usize, len: usize) {
        // SAFETY: what is there is not wanted; whoever touches the chunk waits until it has been fetched.
        let _ = unsafe { rustix::mm::madvise(start as *mut c_void, len, Advice::LinuxDontNeed) };
    }

    /// Whether system calls can be given absent pages.
    pub(super) fn serves_the_kernel(&self) -> bool {
        self.route.serves_the_kernel()
    }
}
