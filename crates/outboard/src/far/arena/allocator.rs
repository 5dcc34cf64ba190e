//! An arena as the allocator of other crates' containers.

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::FarArena;

/// A [`FarArena`] as an allocator for containers of values of any type, by the interface that stands for the standard library's on
/// stable Rust (`allocator-api2`, version 0.2): `Box` and `Vec` of that crate, `HashMap` of `hashbrown`. See
/// [`FarArena::allocator`].
#[derive(Clone, Debug)]
pub struct FarAllocator {
    arena: FarArena,
}

impl FarArena {
    /// This arena as an allocator for values of any type. Their destructors run as in ordinary memory, which may bring them here.
    ///
    /// ```
    /// # let _server = outboard_nearby::start();
    /// use allocator_api2::boxed::Box;
    /// use outboard::{FarAllocator, Outboard, RegionOptions};
    ///
    /// struct Node {
    ///     value: u64,
    ///     next: Option<Box<Node, FarAllocator>>,
    /// }
    ///
    /// let arena = Outboard::find()?.far()?.arena(256 << 20, &RegionOptions::default())?;
    /// // SAFETY: memory server and agent are this user's own `outboard up`.
    /// let allocator = unsafe { arena.allocator() };
    /// let mut list = None;
    /// for value in 0..1000 {
    ///     list = Some(Box::new_in(Node { value, next: list }, allocator.clone()));
    /// }
    /// # Ok::<(), std::boxed::Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    ///
    /// The memory server, and the agent where chunks go by one, give back the bytes that they were given, as the machine's own
    /// memory and its swap do. They always mean to, and lost bytes are never replaced by others (an access raises SIGBUS); but a
    /// server that is hostile, or broken, could change a pointer in a value, and have this process do anything. What is
    /// [`Plain`](crate::Plain) needs no such trust: [`FarBox`](crate::FarBox) and [`FarVec`](crate::FarVec) are for that.
    pub unsafe fn allocator(&self) -> FarAllocator {
        FarAllocator { arena: self.clone() }
    }
}

impl FarAllocator {
    fn block(&self, start: NonNull<u8>, layout: Layout) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(start, self.arena.room(layout))
    }
}

// SAFETY: a block stays where it is, and is no other's, until it is given back: the arena does not end before the last allocator.
// Clones have the same arena. That its bytes stay as they were stored is what `FarArena::allocator` was promised.
unsafe impl Allocator for FarAllocator {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let start = self.arena.alloc(layout).map_err(|_| AllocError)?;
        Ok(self.block(start, layout))
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // All of the block counts, not only what was asked for.
        let room =
            Layout::from_size_align(self.arena.room(layout), layout.align()).map_err(|_| AllocError)?;
        let start = self.arena.alloc_zeroed(room).map_err(|_| AllocError)?;
        Ok(self.block(start, layout))
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: by the contract of the trait.
        unsafe { self.arena.dealloc(block, layout) };
    }

    unsafe fn grow(&self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: by the contract of the trait.
        let start = unsafe { self.arena.realloc(block, old, new) }.map_err(|_| AllocError)?;
        Ok(self.block(start, new))
    }

    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: by the contract of the trait.
        let grown = unsafe { self.grow(block, old, new)? };
        // SAFETY: the block has as many bytes, of which those that were asked for before are kept.
        unsafe { grown.cast::<u8>().add(old.size()).write_bytes(0, grown.len() - old.size()) };
        Ok(grown)
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: by the contract of the trait.
        let start = unsafe { self.arena.realloc(block, old, new) }.map_err(|_| AllocError)?;
        Ok(self.block(start, new))
    }
}
