//! Address ranges whose page faults are ours, and the frames that pages come from and go to.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use outboard_link::memory::Buffer;
use outboard_userfaultfd::{Features, Messages, Route, Stopped, Userfaultfd, Wake, Watch};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// How often an operation that the kernel is too busy for is tried again before the chunk counts as held.
const ATTEMPTS_MAX: usize = 1000;

/// Private memory that is not inherited by children and is never made of huge pages.
#[derive(Debug)]
struct Mapping {
    start: usize,
    len: usize,
}

impl Mapping {
    fn new(len: usize) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nobody.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), flags)? };
        let mapping = Self { start: start as usize, len };
        // A process that has called `mlockall` gets new memory filled with zeros and locked, but what nobody may touch
        // is not filled. Absent pages would be there otherwise, and pages of locked memory cannot be moved.
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the mapping made above, which nobody knows yet.
        unsafe {
            rustix::mm::munlock(start, len)?;
            rustix::mm::mprotect(start, len, rights)?;
        }
        for advice in [Advice::LinuxDontFork, Advice::LinuxNoHugepage, Advice::LinuxDontDump] {
            // SAFETY: the mapping made above, which holds nothing; no advice here discards anything.
            match unsafe { rustix::mm::madvise(start, len, advice) } {
                // A kernel built without huge pages does not know the advice against them.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(mapping)
    }

    /// Prefers the memory of a NUMA node; if it has none left, that of others.
    fn prefer_node(&self, node: u32) -> Result<(), Errno> {
        let mask = 1u64.checked_shl(node).ok_or(Errno::INVAL)?;
        // SAFETY: sets the policy of our own mapping; the mask is read and no more of it than is said.
        let result = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.start,
                self.len,
                libc::MPOL_PREFERRED,
                &raw const mask,
                u64::BITS as usize,
                0usize,
            )
        };
        if result == 0 {
            Ok(())
        } else {
            Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`; whoever owns it has seen to it that nothing points into it any more.
        let _ = unsafe { rustix::mm::munmap(self.start as *mut c_void, self.len) };
    }
}

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
    userfaultfd: Userfaultfd,
    route: Route,
    mover: Mover,
    can_protect: bool,
    can_poison: bool,
}

impl Space {
    /// Gets a userfaultfd with all that this kernel offers.
    pub(super) fn open(mover: Option<Mover>) -> Result<Self, Errno> {
        let (probe, route) = Userfaultfd::open_best()?;
        let there = probe.agree(Features::NONE)?;
        let userfaultfd = Userfaultfd::open(route)?;
        let wanted = [Features::PAGEFAULT_FLAG_WP, Features::MOVE, Features::POISON];
        let bits = wanted.iter().map(|feature| feature.bits()).fold(0, |all, bit| all | bit) & there.bits();
        userfaultfd.agree(Features::from_bits(bits))?;
        let can = |feature| there.contains(feature);
        let best =
            if can(Features::MOVE) && can(Features::PAGEFAULT_FLAG_WP) { Mover::Move } else { Mover::Copy };
        Ok(Self {
            userfaultfd,
            route,
            mover: mover.unwrap_or(best),
            can_protect: can(Features::PAGEFAULT_FLAG_WP),
            can_poison: can(Features::POISON),
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

    /// Takes faults that wait.
    pub(super) fn read(&self, messages: &mut Messages) -> bool {
        // An error here leaves the faults where they are; there is none that a retry would not show again.
        self.userfaultfd.read(messages).unwrap_or(false)
    }

    /// Makes a pool of `frames` frames, none of which has memory yet.
    pub(super) fn pool(&self, frame_bytes: usize, frames: usize, node: Option<u32>) -> Result<Pool, Errno> {
        let mapping = Mapping::new(frame_bytes * frames)?;
        if let Some(node) = node {
            mapping.prefer_node(node)?;
        }
        if self.mover == Mover::Move {
            // SAFETY: only stores to protected pages would wait, and no page of a pool is ever protected. Pages can
            // be moved to registered memory alone.
            unsafe { self.userfaultfd.register(mapping.start, mapping.len, Watch::Protected)? };
        }
        let start = mapping.start;
        let at = NonNull::new(start as *mut u8).ok_or(Errno::NOMEM)?;
        // SAFETY: the mapping is the buffer's owner, and no references into it are ever made.
        let buffer = unsafe { Buffer::from_raw(at, mapping.len, Box::new(mapping)) };
        Ok(Pool { start, frame_bytes, frames, buffer })
    }

    /// Makes a place for a region. Touching it waits for an answer from now on.
    pub(super) fn range(&self, len: usize) -> Result<Range, Errno> {
        let mapping = Mapping::new(len)?;
        let watch = if self.can_protect { Watch::MissingAndProtected } else { Watch::Missing };
        // SAFETY: nobody knows the address yet; whoever is told is told that touching it waits.
        unsafe { self.userfaultfd.register(mapping.start, mapping.len, watch)? };
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
        let mut done = 0;
        for _ in 0..ATTEMPTS_MAX {
            let (from, to, rest) = (frame + done, place + done, len - done);
            let result = match self.mover {
                // SAFETY: the frame is full and its seat belongs to the caller; the place is registered and absent,
                // and whoever waits there waits for exactly this.
                Mover::Move => unsafe { self.userfaultfd.relocate(from, to, rest, wake) },
                // SAFETY: as above.
                Mover::Copy => unsafe { self.userfaultfd.copy(from, to, rest, false, wake) },
            };
            match result {
                Ok(()) => {
                    if self.mover == Mover::Copy {
                        // Its memory is in the region now; twice it would be more than the buffer.
                        self.discard(frame, len);
                    }
                    return Ok(());
                }
                Err(Stopped { done: more, errno: Errno::AGAIN }) => done += more,
                Err(Stopped { errno, .. }) => return Err(errno),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Moves a chunk out of the region into its empty frame. When it returns, no store can reach the bytes.
    pub(super) fn move_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        match self.mover {
            Mover::Move => self.relocate_out(place, frame, len),
            Mover::Copy => self.copy_out(place, frame, len),
        }
    }

    fn relocate_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        let mut done = 0;
        let mut patience = ATTEMPTS_MAX;
        let failed = loop {
            // SAFETY: the chunk is the caller's to move, its frame is empty, and whoever uses the chunk waits for it
            // to come back.
            let result =
                unsafe { self.userfaultfd.relocate(place + done, frame + done, len - done, Wake::Later) };
            match result {
                Ok(()) => return Ok(()),
                Err(Stopped { done: more, errno: Errno::AGAIN }) if patience > 0 => {
                    done += more;
                    patience -= 1;
                }
                Err(Stopped { done: more, errno }) => {
                    done += more;
                    break errno;
                }
            }
        };
        // A part of it may be out already: put it back, so that the chunk is whole again.
        let back = if done > 0 { self.move_in(frame, place, done) } else { Ok(()) };
        match (failed, back) {
            (Errno::BUSY | Errno::AGAIN, Ok(())) => Err(Held::Busy),
            (_, Err(errno)) | (errno, Ok(())) => Err(Held::Failed(errno)),
        }
    }

    fn copy_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
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
        let poisoned = self.userfaultfd.poison(place, len);
        self.wake(place, len);
        // What is there already is poisoned already, or good.
        matches!(poisoned, Ok(()) | Err(Stopped { errno: Errno::EXIST, .. }))
    }

    /// Fills a part of a frame with zeros.
    pub(super) fn clear(&self, start: usize, len: usize) {
        // SAFETY: the caller has the seat of this frame, and nobody else reads or writes there.
        unsafe { ptr::write_bytes(start as *mut u8, 0, len) };
    }

    /// Gives a frame's memory back to the system.
    pub(super) fn discard(&self, frame: usize, len: usize) {
        // SAFETY: the frame belongs to nobody, and what it holds is not wanted.
        let _ = unsafe { rustix::mm::madvise(frame as *mut c_void, len, Advice::LinuxDontNeed) };
    }

    /// Whether system calls can be given absent pages.
    pub(super) fn serves_the_kernel(&self) -> bool {
        self.route.serves_the_kernel()
    }
}
