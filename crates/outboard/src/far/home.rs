//! Where the elements of an array lie: in a region of its own, or in an arena.

use std::alloc::Layout;
use std::ptr::NonNull;

use super::arena::{FarArena, FarBlock, nowhere};
use super::mapping::FarMapping;
use super::memory::FarMemory;
use super::{FarError, RegionOptions};

/// Where the elements of a [`FarVec`](super::FarVec) lie: in [`FarMemory`], where it has a region of its own, or in a [`FarArena`],
/// which many arrays share.
pub trait FarHome {
    /// What an array has there.
    #[doc(hidden)]
    type Place: ArrayPlace;
}

impl FarHome for FarMemory {
    #[doc(hidden)]
    type Place = FarMapping;
}

impl FarHome for FarArena {
    #[doc(hidden)]
    type Place = ArenaPlace;
}

/// The place of one array.
///
/// # Safety
///
/// From where it begins on it has as many bytes as it says, which stay there and are nothing else's until it grows, shrinks or is
/// dropped. What it says that is zero is zero.
#[doc(hidden)]
pub unsafe trait ArrayPlace {
    /// Where it begins.
    fn start(&self) -> NonNull<u8>;
    /// How many bytes it has.
    fn bytes(&self) -> usize;
    /// The region that it lies in, or all of which it is.
    fn region(&self) -> &FarMapping;
    /// Gives it room for so many bytes, and for more where that costs nothing. The first `kept` are kept, wherever it is then.
    /// Returns from which byte on they are zero.
    fn grow(&mut self, bytes: usize, kept: usize) -> Result<usize, FarError>;
    /// Gives the memory up of what is behind the first `kept` bytes, of which those from `used` on are zero. Returns from which byte
    /// on they are zero then.
    fn shrink(&mut self, kept: usize, used: usize) -> Result<usize, FarError>;
}

// SAFETY: a region is mapped as long as its object, and is the object's alone.
unsafe impl ArrayPlace for FarMapping {
    fn start(&self) -> NonNull<u8> {
        self.as_ptr()
    }

    fn bytes(&self) -> usize {
        self.len()
    }

    fn region(&self) -> &FarMapping {
        self
    }

    /// A region keeps its length, so the bytes move to another.
    fn grow(&mut self, bytes: usize, kept: usize) -> Result<usize, FarError> {
        let spec = self.regions()[0].spec();
        if spec.is_kept {
            return Err(FarError::CannotGrow { name: self.name().to_owned(), room: self.len() as u64 });
        }
        let options =
            RegionOptions::default().with_chunk(self.chunk()).with_path(spec.path).with_cache(spec.cache);
        // Less than a chunk would save nothing.
        let longer = self.memory().reserve(bytes.max(self.chunk()) as u64, &options)?;
        // SAFETY: two regions, which have as many bytes; no other thread has a reference to either.
        unsafe { longer.as_ptr().copy_from_nonoverlapping(self.as_ptr(), kept) };
        *self = longer;
        Ok(kept)
    }

    fn shrink(&mut self, kept: usize, used: usize) -> Result<usize, FarError> {
        if used > kept {
            // What is behind is zero, and whole chunks need no memory.
            self.discard(kept..used.next_multiple_of(self.chunk()).min(self.len()))?;
        }
        Ok(kept)
    }
}

/// The place of one array in an arena.
#[doc(hidden)]
pub struct ArenaPlace {
    arena: FarArena,
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a block is its owner's alone, and an arena may be used by all threads.
unsafe impl Send for ArenaPlace {}
// SAFETY: a shared reference to it gives no way to its bytes.
unsafe impl Sync for ArenaPlace {}

impl ArenaPlace {
    /// A place without bytes, for what is aligned like this.
    pub(super) fn empty(arena: &FarArena, align: usize) -> Self {
        let layout = Layout::from_size_align(0, align).expect("alignments of types are powers of two");
        Self { arena: arena.clone(), start: nowhere(align), layout }
    }

    fn layout_of(&self, bytes: usize) -> Result<Layout, FarError> {
        let layout = Layout::from_size_align(bytes, self.layout.align());
        layout.map_err(|_| FarError::TooLong { len: bytes, element: 1 })
    }

    /// Moves to another block. Returns from which byte on it is zero.
    fn move_to(&mut self, layout: Layout, kept: usize) -> Result<usize, FarError> {
        let FarBlock { start, is_zero } = self.arena.take(layout)?;
        // SAFETY: two blocks, which have as many bytes; both are this place's alone.
        unsafe { start.copy_from_nonoverlapping(self.start, kept) };
        self.arena.give(self.start, self.layout);
        (self.start, self.layout) = (start, layout);
        Ok(if is_zero { kept } else { layout.size() })
    }
}

// SAFETY: a block is this place's alone until it is given back, and the arena does not end before.
unsafe impl ArrayPlace for ArenaPlace {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn bytes(&self) -> usize {
        self.layout.size()
    }

    fn region(&self) -> &FarMapping {
        self.arena.mapping()
    }

    fn grow(&mut self, bytes: usize, kept: usize) -> Result<usize, FarError> {
        let layout = self.layout_of(bytes)?;
        let layout = self.layout_of(self.arena.room(layout))?;
        if self.arena.resize_in_place(self.start, self.layout, layout) {
            self.layout = layout;
            return Ok(layout.size());
        }
        self.move_to(layout, kept)
    }

    fn shrink(&mut self, kept: usize, used: usize) -> Result<usize, FarError> {
        let layout = self.layout_of(kept)?;
        let layout = self.layout_of(self.arena.room(layout))?;
        if layout.size() >= self.layout.size() {
            return Ok(used);
        }
        if self.arena.resize_in_place(self.start, self.layout, layout) {
            self.layout = layout;
            return Ok(layout.size());
        }
        self.move_to(layout, kept)
    }
}

impl Drop for ArenaPlace {
    fn drop(&mut self) {
        self.arena.give(self.start, self.layout);
    }
}
