//! Memory of this process that links move bytes into and out of.

use core::ptr::NonNull;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::{Window, WindowMut};

/// A range of this process's memory that a link may fill at any moment while a read is under way. Clones are
/// the same memory; it is freed with the last of them.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

struct Inner {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
}

enum Owner {
    Mapping,
    Shared { _kept: Box<dyn Any + Send + Sync> },
    Other { _kept: Box<dyn Any + Send + Sync> },
}

// SAFETY: the memory is only ever touched through windows, whose copies are sound beside any other access.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Buffer {
    /// Fresh zeroed pages, at least `len` bytes.
    pub fn allocate(len: usize) -> Result<Self, Errno> {
        let len = len.max(1).next_multiple_of(rustix::param::page_size());
        // SAFETY: a new anonymous mapping at an address of the kernel's choice replaces no other.
        let start = unsafe {
            mmap_anonymous(core::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self(Arc::new(Inner { start, len, owner: Owner::Mapping })))
    }

    /// Memory that other processes may write to and that `owner` keeps alive.
    ///
    /// # Safety
    /// The bytes stay mapped, readable and writable until `owner` is dropped, and are never accessed through
    /// references.
    pub unsafe fn shared(start: NonNull<u8>, len: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        Self(Arc::new(Inner { start, len, owner: Owner::Shared { _kept: owner } }))
    }

    /// Memory of this process alone that `owner` keeps alive; for what other processes may write to there is
    /// [`shared`](Self::shared).
    ///
    /// # Safety
    /// The bytes stay mapped, readable and writable until `owner` is dropped, and are never accessed through
    /// references while a clone of the buffer exists.
    pub unsafe fn from_raw(start: NonNull<u8>, len: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        Self(Arc::new(Inner { start, len, owner: Owner::Other { _kept: owner } }))
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether it has none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Whether other processes may write to it.
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self.0.owner, Owner::Shared { .. })
    }

    /// Whether it is made of pages that were allocated for it, and are there.
    #[inline]
    pub fn is_plain(&self) -> bool {
        matches!(self.0.owner, Owner::Mapping)
    }

    /// Where it begins. References may be made to bytes that no operation writes meanwhile, and no other process can.
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.0.start
    }

    /// All of it, to read.
    #[inline]
    pub fn window(&self) -> Window<'_> {
        // SAFETY: mapped as long as `self`, and no references to it are ever made.
        unsafe { Window::new(self.0.start, self.0.len) }
    }

    /// All of it, to write.
    #[inline]
    pub fn window_mut(&self) -> WindowMut<'_> {
        // SAFETY: as above.
        unsafe { WindowMut::new(self.0.start, self.0.len) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Owner::Mapping = self.owner {
            // SAFETY: mapped by `allocate` with this length, and no window exists any more. A failure
            // could only mean that it is not mapped, and then there is nothing to give back.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.0.len)
    }
}
