//! Memory of this process that far memory is made of.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use outboard_userfaultfd::{FaultWatch, Userfaultfd};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// Private memory that is not inherited by children and is never made of huge pages.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) start: usize,
    pub(super) len: usize,
    /// With what it is registered, and by which process. A child has the same descriptor, which is about its parent's memory.
    registered: Option<(Arc<Userfaultfd>, u32)>,
}

/// Long mappings begin at a multiple of this, so that what is aligned within them is aligned.
const ALIGN: usize = 2 << 20;

/// Takes addresses that may not be touched.
fn reserve(len: usize) -> Result<*mut c_void, Errno> {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let spare = if len < ALIGN { 0 } else { ALIGN };
    let all = len.checked_add(spare).ok_or(Errno::NOMEM)?;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nothing.
    let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), all, ProtFlags::empty(), flags)? };
    if spare == 0 {
        return Ok(start);
    }
    let before = start.addr().next_multiple_of(ALIGN) - start.addr();
    let first = start.wrapping_byte_add(before);
    for (part, bytes) in [(start, before), (first.wrapping_byte_add(len), spare - before)] {
        if bytes > 0 {
            // SAFETY: parts of the mapping made above, which no other code knows yet.
            unsafe { rustix::mm::munmap(part, bytes)? };
        }
    }
    Ok(first)
}

impl Mapping {
    pub(super) fn new(len: usize) -> Result<Self, Errno> {
        // Pages are the least that is mapped.
        let len = len.next_multiple_of(rustix::param::page_size());
        let start = reserve(len)?;
        let mapping = Self { start: start as usize, len, registered: None };
        // A process that has called `mlockall` gets new memory filled with zeros and locked, but memory that may not be touched
        // is not filled. Absent pages would be there otherwise, and pages of locked memory cannot be moved.
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the mapping made above, which no other code knows yet.
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

    /// Has its faults reported.
    ///
    /// # Safety
    ///
    /// As for [`Userfaultfd::register`].
    pub(super) unsafe fn register(
        &mut self,
        userfaultfd: &Arc<Userfaultfd>,
        watch: FaultWatch,
    ) -> Result<(), Errno> {
        // SAFETY: by the contract above.
        unsafe { userfaultfd.register(self.start, self.len, watch)? };
        self.registered = Some((Arc::clone(userfaultfd), std::process::id()));
        Ok(())
    }

    /// Prefers the memory of a NUMA node; if it has none left, that of others.
    pub(super) fn prefer_node(&self, node: u32) -> Result<(), Errno> {
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
        if let Some((userfaultfd, process)) = &self.registered
            && *process == std::process::id()
        {
            // A thread that touches it against all rules from here on must not take zeros for what was there.
            // SAFETY: the mapping made in `new`, as below.
            let _ =
                unsafe { rustix::mm::mprotect(self.start as *mut c_void, self.len, MprotectFlags::empty()) };
            // Unmapping a registered range waits until a thread has read that it happens, and no thread may be left that reads.
            // SAFETY: the mapping made in `new`, which nothing can be read from any more.
            let _ = unsafe { userfaultfd.unregister(self.start, self.len) };
        }
        // SAFETY: the mapping made in `new`; its owner has seen to it that nothing points into it any more.
        let _ = unsafe { rustix::mm::munmap(self.start as *mut c_void, self.len) };
    }
}

#[cfg(test)]
mod tests {
    use outboard_userfaultfd::{DescriptorSource, Features, Wake};

    use super::*;

    #[test]
    fn a_child_that_drops_it_takes_nothing_from_its_parent() {
        let userfaultfd = match Userfaultfd::open(DescriptorSource::UserModeOnly) {
            Err(Errno::PERM | Errno::NOSYS) => {
                println!("skipped: userfaultfd is not allowed here");
                return;
            }
            opened => Arc::new(opened.unwrap()),
        };
        let there = Userfaultfd::open(DescriptorSource::UserModeOnly).unwrap().agree(Features::NONE).unwrap();
        if !there.contains(Features::POISON) {
            println!("skipped: this kernel does not tell what is registered");
            return;
        }
        userfaultfd.agree(Features::POISON).unwrap();
        let page = rustix::param::page_size();
        let mut mapping = Mapping::new(page).unwrap();
        // SAFETY: no thread touches it.
        unsafe { mapping.register(&userfaultfd, FaultWatch::Missing).unwrap() };
        // SAFETY: the child drops the mapping and ends, which needs no lock that another thread may have had.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(mapping);
            // SAFETY: ends the child without a word to any thread.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) }, child);
        // It is refused for what is not registered.
        // SAFETY: no thread touches it, and nothing fills it.
        let poison = |start| unsafe { userfaultfd.poison(start, page, Wake::Now) };
        poison(mapping.start).unwrap();
        let start = mapping.start;
        drop(mapping);
        assert!(poison(start).is_err());
    }
}
