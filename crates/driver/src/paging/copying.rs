//! Pages that are copied in and out, where they cannot be moved: the kernel moves pages between places alone that have equal
//! rights, that of writing among them, and are equally locked.
//!
//! Threads need not be kept from changing the rights meanwhile. The kernel's answer to each step decides: whether pages
//! can be moved, and how many of them are one mapping. No step depends on what the rights were a moment ago.

use core::ffi::c_void;
use std::fs::File;
use std::os::fd::AsFd;
use std::ptr;

use outboard_paging::application::Held;
use outboard_userfaultfd::{Stopped, Wake};
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};

use super::space::{ATTEMPTS_MAX, Space, held};

/// `/proc/self/mem`, by which pages can be read whose rights do not allow it. Opened early, as the page map is.
#[derive(Debug)]
pub(super) struct OwnMemory(Option<File>);

impl OwnMemory {
    pub(super) fn open() -> Self {
        Self(File::open("/proc/self/mem").ok())
    }

    /// Copies pages that are there, with whatever rights. Returns how many bytes it has copied.
    ///
    /// # Safety
    ///
    /// `to` is memory of the caller's, and no other thread uses it.
    unsafe fn copy(&self, from: usize, to: usize, len: usize) -> usize {
        let Some(file) = &self.0 else { return 0 };
        let mut done = 0;
        while done < len {
            // SAFETY: by the contract above.
            let rest = unsafe { core::slice::from_raw_parts_mut((to + done) as *mut u8, len - done) };
            match rustix::io::pread(file.as_fd(), rest, (from + done) as u64) {
                Ok(more) if more > 0 => done += more,
                Err(Errno::INTR) => {}
                _ => break,
            }
        }
        done
    }
}

impl Space {
    /// Copies a frame to an absent place, and leaves nothing in the frame.
    ///
    /// # Safety
    ///
    /// As for [`bring_in`](Self::bring_in).
    pub(super) unsafe fn copy_in(
        &self,
        frame: usize,
        place: usize,
        len: usize,
        wake: Wake,
    ) -> Result<(), Errno> {
        let copy = |at, part| {
            // SAFETY: by the contract above; a place that is not absent is refused.
            unsafe { self.userfaultfd().copy(frame + at, place + at, part, false, wake) }
        };
        by_mappings(len, copy)?;
        // Its memory is in the region now; twice it would be more than the buffer.
        // SAFETY: by the contract above.
        unsafe { throw_away(frame, len) }
    }

    /// Copies what is at a place into a frame, and leaves nothing at the place.
    ///
    /// # Safety
    ///
    /// As for [`take_out`](Self::take_out).
    pub(super) unsafe fn copy_out(&self, place: usize, frame: usize, len: usize) -> Result<(), Held> {
        // A thread that reads a page that was thrown away waits for one that waits for this shard.
        // SAFETY: by the contract above. The chunk is in its region: what is absent of it was thrown away.
        if !self.is_whole(place, len) && unsafe { self.has_absent(place, len) } {
            return Err(held(Errno::NOENT));
        }
        if self.can_protect {
            // SAFETY: by the contract above; those who store wait until the chunk has left.
            unsafe { self.userfaultfd().protect(place, len).map_err(held)? };
        }
        // From here on stores to the chunk wait, or are forbidden: its bytes are at rest.
        // SAFETY: by the contract above.
        let done = unsafe { self.own_memory.copy(place, frame, len) };
        // SAFETY: as above.
        unsafe { self.copy_the_rest(place + done, frame + done, len - done).map_err(held)? };
        // SAFETY: its bytes are in the frame; those who touch it wait for it to come back.
        let gone = unsafe { throw_away(place, len) };
        // Those who waited to store find it absent.
        let woken = self.userfaultfd().wake(place, len);
        gone.and(woken).map_err(held)
    }

    /// Copies pages out that cannot be read through `/proc/self/mem`: because there is none, or because the kernel keeps to the
    /// rights there too (`proc_mem.force_override=never`). Then those who load from them find their bytes for a moment, not SIGSEGV.
    ///
    /// # Safety
    ///
    /// As for [`take_out`](Self::take_out); no store reaches the pages.
    unsafe fn copy_the_rest(&self, place: usize, frame: usize, len: usize) -> Result<(), Errno> {
        let page = rustix::param::page_size();
        for at in (0..len).step_by(page) {
            let (place, frame) = (place + at, frame + at);
            // SAFETY: by the contract above.
            if unsafe { self.own_memory.copy(place, frame, page) } == page {
                continue;
            }
            let has_no_rights = self.own_memory.0.is_some();
            if has_no_rights {
                // SAFETY: by the contract above.
                unsafe { set_rights(place, page, MprotectFlags::READ)? };
            }
            // SAFETY: by the contract above.
            unsafe { ptr::copy_nonoverlapping(place as *const u8, frame as *mut u8, page) };
            if has_no_rights {
                // SAFETY: as in `copy_out`.
                unsafe {
                    throw_away(place, page)?;
                    set_rights(place, page, MprotectFlags::empty())?;
                }
            }
        }
        Ok(())
    }
}

/// Changes what may be done to pages. Whatever that is, they keep their bytes.
///
/// # Safety
///
/// They are mapped by a space. Threads that do what is allowed no longer get SIGSEGV.
pub(super) unsafe fn set_rights(start: usize, len: usize, rights: MprotectFlags) -> Result<(), Errno> {
    // SAFETY: by the contract above.
    unsafe { rustix::mm::mprotect(start as *mut c_void, len, rights) }
}

/// Gives the memory of pages back to the system.
///
/// # Safety
///
/// They are mapped by a space, and what is in them is not wanted.
pub(super) unsafe fn throw_away(start: usize, len: usize) -> Result<(), Errno> {
    // SAFETY: by the contract above.
    let advise = |advice| unsafe { rustix::mm::madvise(start as *mut c_void, len, advice) };
    match advise(Advice::LinuxDontNeed) {
        // Locked memory is thrown away by a name of its own, since Linux 5.18.
        Err(Errno::INVAL) => advise(Advice::LinuxDontneedLocked),
        advised => advised,
    }
}

/// Does something to all pages of a span, which may be several mappings, of which the kernel does one at a time.
pub(super) fn by_mappings(
    len: usize,
    step: impl Fn(usize, usize) -> Result<(), Stopped>,
) -> Result<(), Errno> {
    let page = rustix::param::page_size();
    let (mut done, mut part, mut attempts) = (0, len, 0);
    while done < len {
        let now = part.min(len - done);
        match step(done, now) {
            Ok(()) => done += now,
            Err(Stopped { done: more, errno: Errno::AGAIN }) if attempts < ATTEMPTS_MAX => {
                done += more;
                attempts += 1;
            }
            // No mapping has all of it.
            Err(Stopped { done: 0, errno: Errno::NOENT }) if now > page => {
                part = (now / 2).next_multiple_of(page);
            }
            Err(Stopped { errno, .. }) => return Err(errno),
        }
    }
    Ok(())
}
