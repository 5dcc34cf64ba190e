//! Pages with machine code: where it is written it cannot be executed, and where it is executed it cannot be written.
//!
//! The code of several programs lies side by side in one piece. With a page for each, hundreds of programs would need more
//! translations of addresses than a processor keeps, and as all would begin at the beginning of a page, their code would
//! compete for a few lines of its caches while the others are empty.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mmap_anonymous, mprotect, munmap};

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("code is made for x86-64 and aarch64 only");

/// How long a piece is that several programs share, in bytes. It is there until the last of them is gone.
const SHARED: usize = 64 << 10;
/// Longer code has a piece of its own.
const SHARED_CODE_MAX: usize = SHARED / 4;
/// Where code may begin, in bytes: at a line of the caches.
const ALIGNMENT: usize = 64;

/// The piece that the next code goes to.
static OPEN: Mutex<Option<Piece>> = Mutex::new(None);

/// A piece in which there may be room for more code.
struct Piece {
    mapping: Arc<Mapping>,
    /// What is mapped, to be written through a mapping beside it.
    file: OwnedFd,
    /// How many of its bytes are taken.
    taken: usize,
}

/// Code that can be executed and no longer be changed. It is unmapped with the last who may call it, and all who share
/// its pages.
#[derive(Debug)]
pub(super) struct Pages {
    mapping: Arc<Mapping>,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: no thread writes this code once it exists as this type.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Copies `code` to where it can be executed.
    pub(super) fn new(code: &[u8]) -> Result<Pages, Errno> {
        let pages = if code.len() > SHARED_CODE_MAX { None } else { Pages::shared(code) };
        let pages = match pages {
            Some(pages) => pages,
            None => Pages::alone(code)?,
        };
        pages.announce();
        Ok(pages)
    }

    /// Beside others, where the kernel allows memory that is mapped twice to be executed.
    fn shared(code: &[u8]) -> Option<Pages> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let length = code.len().next_multiple_of(ALIGNMENT).max(ALIGNMENT);
        let mut piece = match open.take().filter(|piece| SHARED - piece.taken >= length) {
            Some(piece) => piece,
            None => Piece::new().ok()?,
        };
        piece.write(code).ok()?;
        let mapping = Arc::clone(&piece.mapping);
        // SAFETY: inside the mapping, as there was room.
        let start = unsafe { mapping.start.add(piece.taken) };
        piece.taken += length;
        *open = Some(piece);
        Some(Pages { mapping, start, length: code.len() })
    }

    /// In pages of its own.
    fn alone(code: &[u8]) -> Result<Pages, Errno> {
        let mapped = code.len().max(1).next_multiple_of(rustix::param::page_size());
        let (null, both) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap_anonymous(null, mapped, both, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        let mapping = Arc::new(Mapping { start, mapped });
        // SAFETY: the mapping is at least as long as the code, writable and known to no other code.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(code).cast(), code.len()) };
        // SAFETY: these are whole pages of the mapping from above, to which there are no references.
        unsafe { mprotect(start.as_ptr().cast(), mapped, MprotectFlags::READ | MprotectFlags::EXEC)? };
        Ok(Pages { mapping, start, length: code.len() })
    }

    /// The native address of the code's byte at `offset`.
    pub(super) fn at(&self, offset: u32) -> *const u8 {
        debug_assert!((offset as usize) < self.length.max(1) && self.mapping.mapped >= self.length);
        self.start.as_ptr().wrapping_add(offset as usize)
    }

    /// Instruction caches of x86-64 see what was written.
    #[cfg(target_arch = "x86_64")]
    fn announce(&self) {}

    /// Writes new code from the data caches and drops what the instruction caches have of it.
    #[cfg(target_arch = "aarch64")]
    fn announce(&self) {
        // The smallest line an implementation can have.
        const LINE: usize = 16;
        let lines = || (0..self.length).step_by(LINE).map(|offset| self.start.as_ptr().wrapping_add(offset));
        for line in lines() {
            // SAFETY: cleans a line of a mapping that is there; this changes no memory.
            unsafe { std::arch::asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier.
        unsafe { std::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
        for line in lines() {
            // SAFETY: drops a line from the instruction cache; this changes no memory.
            unsafe { std::arch::asm!("ic ivau, {}", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SAFETY: barriers.
        unsafe { std::arch::asm!("dsb ish", "isb", options(nostack, preserves_flags)) };
    }
}

impl Piece {
    /// Pages for several.
    fn new() -> Result<Piece, Errno> {
        let name = c"outboard-code";
        let file = match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC) {
            // Kernels before 6.3 do not know the flag.
            Err(Errno::INVAL) => memfd_create(name, MemfdFlags::CLOEXEC)?,
            other => other?,
        };
        ftruncate(&file, SHARED as u64)?;
        let (null, flags) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::EXEC);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { mmap(null, SHARED, flags, MapFlags::SHARED, &file, 0)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Piece { mapping: Arc::new(Mapping { start, mapped: SHARED }), file, taken: 0 })
    }

    /// Writes `code` behind what is taken, where no thread executes anything yet. There must be room for it.
    fn write(&self, code: &[u8]) -> Result<(), Errno> {
        assert!(self.taken <= SHARED && code.len() <= SHARED - self.taken, "no room for the code");
        let (null, both) = (std::ptr::null_mut(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping of all of the file, which is as long; the code fits behind what is taken, no thread reads those
        // bytes before they are handed out, and nothing keeps an address in it when it is unmapped.
        unsafe {
            let writable = mmap(null, SHARED, both, MapFlags::SHARED, &self.file, 0)?;
            let target = writable.cast::<u8>().add(self.taken);
            target.copy_from_nonoverlapping(code.as_ptr(), code.len());
            munmap(writable, SHARED)
        }
    }
}

/// Executable pages.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    mapped: usize,
}

// SAFETY: no thread writes code that another may execute.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nothing refers to it any more. That it fails means only that
        // the pages stay.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}
