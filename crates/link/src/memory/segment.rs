//! Sealed anonymous memory that can be handed to another process.

use core::ffi::c_void;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::file_backing::FileBacking;
use super::{Buffer, Mapping, SegmentAccess};
use crate::Violation;

/// A memfd that no process can shrink or grow, mapped here. It has no name in any file system: when the last process
/// that holds it ends, however it ends, the memory is gone. Or a [file](Segment::of_file) that outlives processes.
pub struct Segment {
    pub(super) descriptor: OwnedFd,
    mapping: Mapping,
    is_quiet: AtomicBool,
    /// Of a file, what is behind it.
    pub(super) file: Option<FileBacking>,
}

impl Deref for Segment {
    type Target = Mapping;

    #[inline]
    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

/// The bytes that processors bring into their caches at once.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// A peer that could shrink a segment could make us fault.
pub(super) const NEEDED_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// No page of memory is smaller.
const LEAST_PAGE: usize = 4096;
/// The larger pages that a kernel can make of ordinary ones, in bytes.
const LARGE_PAGE: usize = 2 << 20;

/// How long the kernel may take on average to make one: some hundred microseconds where memory is free, but where it is full
/// of the pages of files it may move others out of the way for seconds, longer than a client waits for a region.
const LARGE_PAGE_WITHIN: Duration = Duration::from_millis(10);

/// The file system of memory files that are made of huge pages.
const HUGETLBFS_MAGIC: rustix::fs::FsWord = 0x9584_58f6;

/// The large pages that are made of a segment: how many there are, and how long the kernel may still take to make more.
pub struct LargePages {
    bytes: usize,
    patience: Duration,
}

impl LargePages {
    /// None yet, of `len` bytes.
    pub fn of(len: usize) -> Self {
        let pages = u32::try_from(len / LARGE_PAGE).unwrap_or(u32::MAX);
        Self { bytes: 0, patience: LARGE_PAGE_WITHIN.saturating_mul(pages) }
    }

    /// How many bytes are in large pages.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Has one more made, unless it has taken too long already.
    fn make(&mut self, make: impl FnOnce() -> Result<(), Errno>) -> bool {
        if self.patience.is_zero() {
            return false;
        }
        let began = Instant::now();
        let is_made = make().is_ok();
        self.patience = self.patience.saturating_sub(began.elapsed());
        self.bytes += if is_made { LARGE_PAGE } else { 0 };
        is_made
    }
}

impl Segment {
    /// A new segment of `len` zero bytes, a multiple of the page size. `label` shows in `/proc/*/maps`.
    pub fn create(label: &CStr, len: usize) -> Result<Self, Errno> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = match rustix::fs::memfd_create(label, flags | MemfdFlags::NOEXEC_SEAL) {
            // Kernels before 6.3 do not know the flag.
            Err(Errno::INVAL) => rustix::fs::memfd_create(label, flags)?,
            other => other?,
        };
        // A process that is given a read-only descriptor must not be able to open it anew for writing.
        rustix::fs::fchmod(&descriptor, Mode::RUSR)?;
        rustix::fs::ftruncate(&descriptor, len as u64)?;
        rustix::fs::fcntl_add_seals(&descriptor, NEEDED_SEALS | SealFlags::SEAL)?;
        let start = map(descriptor.as_fd(), len, SegmentAccess::ReadWrite)?;
        Ok(Self::new(descriptor, start, len, SegmentAccess::ReadWrite))
    }

    pub(super) fn new(descriptor: OwnedFd, start: NonNull<u8>, len: usize, access: SegmentAccess) -> Self {
        // SAFETY: `map` has just made it, and it belongs to the segment alone.
        let mapping = unsafe { Mapping::new(start, len, access) };
        Self { descriptor, mapping, is_quiet: AtomicBool::new(false), file: None }
    }

    /// Its memory as a place that links read into and write from.
    ///
    /// # Panics
    /// If it is mapped to read only.
    pub fn into_buffer(self: Arc<Self>) -> Buffer {
        assert!(self.is_writable(), "the segment is mapped to read only");
        let (start, len) = (self.start(), self.len());
        // SAFETY: mapped to write as long as the segment is kept, and no references to it are ever made.
        unsafe { Buffer::shared(start, len, Box::new(self)) }
    }

    /// The memory and its descriptor, for owners that need one of them longer than the other.
    pub fn into_parts(self) -> (Mapping, OwnedFd) {
        (self.mapping, self.descriptor)
    }

    /// Maps a segment that another process made, after checking that it is `len` bytes and stays so.
    pub fn adopt(descriptor: OwnedFd, len: usize, access: SegmentAccess) -> Result<Self, AdoptError> {
        let seals = rustix::fs::fcntl_get_seals(&descriptor)
            .map_err(|_| Violation::Segment("not an anonymous memory file"))?;
        if !seals.contains(NEEDED_SEALS) {
            return Err(Violation::Segment("not sealed against shrinking and growing").into());
        }
        // Huge pages come from a pool that can be empty when a hole is touched, and that is a fault.
        if rustix::fs::fstatfs(&descriptor)?.f_type == HUGETLBFS_MAGIC {
            return Err(Violation::Segment("made of huge pages").into());
        }
        if rustix::fs::fstat(&descriptor)?.st_size != len as i64 || len == 0 {
            return Err(Violation::Segment("not of the announced size").into());
        }
        let start = map(descriptor.as_fd(), len, access)?;
        Ok(Self::new(descriptor, start, len, access))
    }

    /// Says whether those who read and write here keep out of each other's way: no process reads what another one
    /// writes at that moment. Then links need not keep words whole, and may leave the copying to the kernel. Until it
    /// is said, it is not so.
    pub fn set_quiet(&self, is_quiet: bool) {
        self.is_quiet.store(is_quiet, Release);
    }

    /// Whether readers and writers keep out of each other's way.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.is_quiet.load(Acquire)
    }

    /// The descriptor to hand to a peer that may write.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// A descriptor to hand to a peer that may only read. It cannot be mapped writable, and another user cannot
    /// open it anew for writing; root and the same user can.
    pub fn read_only_descriptor(&self) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
    }

    /// Lets the processor begin to bring bytes into its caches, for a thread that has something else to do meanwhile. Says
    /// whether it knows how to.
    ///
    /// # Panics
    /// If they are not all inside the segment.
    #[inline]
    pub fn approach(&self, offset: usize, len: usize) -> bool {
        assert!(offset <= self.len() && len <= self.len() - offset, "no {len} bytes at {offset}");
        #[cfg(target_arch = "x86_64")]
        for line in (offset & !(LINE - 1)..offset + len).step_by(LINE) {
            // SAFETY: it changes nothing that a program can see, and the line begins inside the mapping, at whose start
            // a page begins.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.start().as_ptr().add(line).cast()) };
        }
        cfg!(target_arch = "x86_64")
    }

    /// Leaves it out of this process's core dumps: it belongs to another process, and may be larger than all that is ours.
    pub fn leave_out_of_dumps(&self) {
        // SAFETY: mapped as long as `self`; what is dumped changes nothing for those who use it.
        let advised = unsafe {
            rustix::mm::madvise(self.start().as_ptr().cast(), self.len(), rustix::mm::Advice::LinuxDontDump)
        };
        // A kernel that does not know the advice dumps more than is wanted, which harms no other process.
        let _ = advised;
    }

    /// Takes memory for all of it now, in large pages where the kernel makes some: then a thread that reads here and there waits
    /// less for the translation of addresses. What is in it stays. Returns how many bytes are in large pages.
    pub fn populate(&self) -> Result<usize, Errno> {
        let mut pages = LargePages::of(self.len());
        self.populate_part((0, self.len()), &mut pages)?;
        Ok(pages.bytes)
    }

    /// Takes memory for the `len` bytes from `offset`, a multiple of 2 MiB, in large pages as far as `pages` allow.
    pub fn populate_part(&self, (offset, len): (usize, usize), pages: &mut LargePages) -> Result<(), Errno> {
        assert!(offset.is_multiple_of(LARGE_PAGE), "a part from {offset}");
        let end = self.len().min(offset.saturating_add(len));
        for offset in (offset..end).step_by(LARGE_PAGE) {
            let len = LARGE_PAGE.min(end - offset);
            // Nothing is made of pages of which none is there.
            // Pages of a file that no process has changed need not be written to its disk.
            let populate = if self.is_file() { libc::MADV_POPULATE_READ } else { libc::MADV_POPULATE_WRITE };
            self.advise((offset, LEAST_PAGE.min(len)), populate)?;
            let made = len == LARGE_PAGE && pages.make(|| self.advise((offset, len), libc::MADV_COLLAPSE));
            if !made {
                self.advise((offset, len), populate)?;
            }
        }
        Ok(())
    }

    /// How many bytes of it have memory, whichever process has brought them there.
    pub fn present(&self) -> Result<u64, Errno> {
        // The kernel counts blocks of 512 bytes, whatever the file system's are.
        Ok(rustix::fs::fstat(&self.descriptor)?.st_blocks.cast_unsigned() * 512)
    }

    /// Has the kernel do something with the pages of a part of it.
    pub(super) fn advise(
        &self,
        (offset, len): (usize, usize),
        advice: core::ffi::c_int,
    ) -> Result<(), Errno> {
        assert!(offset <= self.len() && len <= self.len() - offset, "no {len} bytes at {offset}");
        loop {
            // SAFETY: the part lies in the mapping, which lasts as long as `self`; what is given as advice here takes
            // memory, moves it to other pages, or makes it zero, as a write would.
            match unsafe { libc::madvise(self.start().as_ptr().add(offset).cast(), len, advice) } {
                0 => return Ok(()),
                _ => match std::io::Error::last_os_error().raw_os_error() {
                    Some(libc::EINTR) => {}
                    other => return Err(Errno::from_raw_os_error(other.unwrap_or(libc::EINVAL))),
                },
            }
        }
    }
}

pub(super) fn map(
    descriptor: BorrowedFd<'_>,
    len: usize,
    access: SegmentAccess,
) -> Result<NonNull<u8>, Errno> {
    let protection = match access {
        SegmentAccess::Read => ProtFlags::READ,
        SegmentAccess::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
    };
    let start = if len < LARGE_PAGE {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        unsafe { rustix::mm::mmap(core::ptr::null_mut(), len, protection, MapFlags::SHARED, descriptor, 0)? }
    } else {
        map_aligned(descriptor, len, protection)?
    };
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

/// Maps where large pages of the file can be large pages of the mapping.
fn map_aligned(descriptor: BorrowedFd<'_>, len: usize, protection: ProtFlags) -> Result<*mut c_void, Errno> {
    let (null, flags) = (core::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::NORESERVE);
    let around = len.checked_add(LARGE_PAGE).ok_or(Errno::NOMEM)?;
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let room = unsafe { rustix::mm::mmap_anonymous(null, around, ProtFlags::empty(), flags)? };
    let before = room.addr().next_multiple_of(LARGE_PAGE) - room.addr();
    let behind = LARGE_PAGE - before;
    // SAFETY: all of it lies in the room, which is ours and which no thread uses; what is not needed of it is given back.
    unsafe {
        let start = room.byte_add(before);
        let mapped =
            rustix::mm::mmap(start, len, protection, MapFlags::SHARED | MapFlags::FIXED, descriptor, 0);
        if mapped.is_err() {
            // Only address space is lost where this fails.
            let _ = rustix::mm::munmap(room, around);
            return mapped;
        }
        if before > 0 {
            rustix::mm::munmap(room, before)?;
        }
        let end = len.next_multiple_of(rustix::param::page_size());
        if behind > end - len {
            rustix::mm::munmap(start.byte_add(end), behind - (end - len))?;
        }
        Ok(start)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segment({} bytes, {:?})", self.len(), self.access())
    }
}

/// Why a peer's segment was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The peer sent something else than it should.
    #[error(transparent)]
    Violation(#[from] Violation),
    /// The operating system refused.
    #[error("the segment cannot be mapped: {0}")]
    System(#[from] Errno),
}

outboard_wire::debug_with_causes!(AdoptError);

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 1 << 16;

    #[test]
    fn a_segment_is_the_same_memory_on_both_sides() {
        let ours = Segment::create(c"test", LEN).unwrap();
        let fd = ours.descriptor().try_clone_to_owned().unwrap();
        let theirs = Segment::adopt(fd, LEN, SegmentAccess::ReadWrite).unwrap();
        ours.window_mut(100, 8).write(0, b"outboard");
        assert_eq!(&theirs.window(0, LEN).array::<8>(100), b"outboard");
    }

    #[test]
    fn populating_keeps_what_is_there_and_takes_memory_for_the_rest() {
        let len = 2 * LARGE_PAGE + 3 * LEAST_PAGE;
        let ours = Segment::create(c"test", len).unwrap();
        assert!(ours.start().addr().get().is_multiple_of(LARGE_PAGE));
        ours.window_mut(LARGE_PAGE + 77, 8).write(0, b"outboard");
        // The kernel may have taken a larger page for it.
        assert!(ours.present().unwrap() <= LARGE_PAGE as u64);
        let mut pages = LargePages::of(len);
        ours.populate_part((0, LARGE_PAGE), &mut pages).unwrap();
        ours.populate_part((LARGE_PAGE, len), &mut pages).unwrap();
        let large = pages.bytes();
        println!("{large} of {len} bytes in large pages");
        assert!(ours.present().unwrap() >= len as u64, "{ours:?}");
        assert_eq!(&ours.window(0, len).array::<8>(LARGE_PAGE + 77), b"outboard");
        assert_eq!(ours.window(0, len).array::<8>(0), [0; 8]);
        let fd = ours.descriptor().try_clone_to_owned().unwrap();
        let theirs = Segment::adopt(fd, len, SegmentAccess::Read).unwrap();
        assert_eq!(&theirs.window(0, len).array::<8>(LARGE_PAGE + 77), b"outboard");
        assert!(large.is_multiple_of(LARGE_PAGE) && large <= len);
    }

    #[test]
    fn what_is_discarded_is_zero_on_both_sides_and_has_no_memory() {
        let ours = Segment::create(c"test", LEN).unwrap();
        let fd = ours.descriptor().try_clone_to_owned().unwrap();
        let theirs = Segment::adopt(fd, LEN, SegmentAccess::ReadWrite).unwrap();
        theirs.window_mut(0, LEN).write(0, &[7; LEN]);
        let page = rustix::param::page_size().max(LEAST_PAGE);
        ours.discard(page, 2 * page);
        assert_eq!(ours.present().unwrap(), (LEN - 2 * page) as u64);
        let is_zero = |at: usize| theirs.window(at, 1).array::<1>(0) == [0];
        assert!((page..3 * page).all(is_zero) && !is_zero(page - 1) && !is_zero(3 * page));
        // A part of a page is made zero as well.
        ours.discard(1, 8);
        assert!((1..9).all(is_zero) && !is_zero(0) && !is_zero(9));
    }

    #[test]
    fn where_large_pages_take_too_long_others_are_taken() {
        let len = 3 * LARGE_PAGE;
        let ours = Segment::create(c"test", len).unwrap();
        ours.window_mut(LARGE_PAGE + 77, 8).write(0, b"outboard");
        let mut pages = LargePages { bytes: 0, patience: Duration::ZERO };
        ours.populate_part((0, len), &mut pages).unwrap();
        assert_eq!(pages.bytes(), 0);
        assert!(ours.present().unwrap() >= len as u64, "{ours:?}");
        assert_eq!(&ours.window(0, len).array::<8>(LARGE_PAGE + 77), b"outboard");
    }

    #[test]
    fn a_read_only_descriptor_cannot_be_mapped_to_write() {
        let ours = Segment::create(c"test", LEN).unwrap();
        let fd = ours.read_only_descriptor().unwrap();
        let refused = Segment::adopt(fd.try_clone().unwrap(), LEN, SegmentAccess::ReadWrite);
        assert!(matches!(refused, Err(AdoptError::System(Errno::ACCESS | Errno::PERM))), "{refused:?}");
        Segment::adopt(fd, LEN, SegmentAccess::Read).unwrap();
    }

    #[test]
    fn another_user_cannot_open_a_read_only_descriptor_to_write() {
        use std::os::unix::process::CommandExt;
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can start a process of another user");
            return;
        }
        let ours = Segment::create(c"test", LEN).unwrap();
        let status = |script: &str| {
            std::process::Command::new("/bin/sh")
                .args(["-c", script])
                .stdin(std::process::Stdio::from(ours.read_only_descriptor().unwrap()))
                .stderr(std::process::Stdio::null())
                .uid(65534)
                .gid(65534)
                .status()
                .unwrap()
        };
        assert!(status("head -c 1 <&0 >/dev/null").success(), "reading is allowed");
        assert!(!status("echo pwned 1<>/proc/self/fd/0").success());
        assert_eq!(ours.window(0, 1).array(0), [0]);
    }

    #[test]
    fn a_segment_that_could_shrink_is_refused() {
        let fd = rustix::fs::memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, LEN as u64).unwrap();
        let refused = Segment::adopt(fd, LEN, SegmentAccess::Read).unwrap_err();
        assert!(refused.to_string().contains("not sealed"), "{refused}");
    }

    #[test]
    fn a_segment_of_another_size_or_kind_is_refused() {
        let ours = Segment::create(c"test", LEN).unwrap();
        let fd = ours.descriptor().try_clone_to_owned().unwrap();
        assert!(Segment::adopt(fd, LEN * 2, SegmentAccess::Read).is_err());
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert!(Segment::adopt(pipe, LEN, SegmentAccess::Read).is_err());
        assert_eq!(rustix::fs::ftruncate(ours.descriptor(), 1), Err(Errno::PERM));
    }
}
