//! Arrays in far memory that grow.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::time::Duration;

use super::arena::{FarArena, nowhere};
use super::array::{FarSlice, Plain, elements, page_aligned};
use super::home::{ArenaPlace, ArrayPlace, FarHome};
use super::mapping::FarMapping;
use super::memory::FarMemory;
use super::{FarError, RegionOptions};

/// An array in far memory that this process may write. It is used like a slice, and grows like a `Vec`.
///
/// It has a region of its own, by [`FarMemory::allocate`] or [`FarMemory::vec_with_capacity`], or lies in a [`FarArena`] with
/// others, by [`FarVec::new_in`]. For few long arrays, regions; for many, or short ones, an arena.
///
/// What does not fit any more moves to twice the place, which brings all of it here once. So begin with the capacity that it may
/// need: room that was never written takes no memory, neither here nor at the memory server, whose capacity it counts against.
/// In an arena an array of more than a chunk stays where it is as long as the chunks behind it are free.
pub struct FarVec<T, H: FarHome = FarMemory> {
    place: H::Place,
    /// Where `place` begins.
    start: NonNull<T>,
    len: usize,
    capacity: usize,
    /// From this element on, or from the end if that is later, all bytes of the place are zero.
    used: usize,
}

// SAFETY: it owns its elements alone, and its place may be used by any thread.
unsafe impl<T: Plain, H: FarHome<Place: Send>> Send for FarVec<T, H> {}
// SAFETY: a shared reference to it gives shared references to its elements alone, and to what is `Sync` of its place.
unsafe impl<T: Plain, H: FarHome<Place: Sync>> Sync for FarVec<T, H> {}

impl FarMemory {
    /// An array without elements, with room for `capacity`.
    pub fn vec_with_capacity<T: Plain>(&self, capacity: usize) -> Result<FarVec<T>, FarError> {
        self.vec_with_capacity_and(capacity, &RegionOptions::default())
    }

    /// As [`vec_with_capacity`](Self::vec_with_capacity), with options. If it has a name, those who open it find as many elements as it has room for; those it has not got
    /// are zero.
    pub fn vec_with_capacity_and<T: Plain>(
        &self,
        capacity: usize,
        options: &RegionOptions,
    ) -> Result<FarVec<T>, FarError> {
        let mut array = self.allocate_with(capacity, options)?;
        array.len = 0;
        Ok(array)
    }
}

impl<T: Plain> FarVec<T> {
    /// The first `len` elements of a region, behind which it is zero.
    pub(super) fn new(mapping: FarMapping, len: usize) -> Self {
        page_aligned::<T>();
        assert!(len * size_of::<T>() <= mapping.len(), "the region was made for as many");
        let (start, capacity) = (mapping.as_ptr().cast(), room::<T>(mapping.len()));
        Self { place: mapping, start, len, capacity, used: 0 }
    }

    /// As many elements as the region holds.
    pub(super) fn whole(mapping: FarMapping) -> Result<Self, FarError> {
        let len = elements::<T>(&mapping)?;
        Ok(Self::new(mapping, len))
    }

    /// The region beneath, for what concerns bytes. They are not written by it, since slices of the array may live:
    ///
    // tidy: allow(no_run) it shows what does not compile
    /// ```compile_fail,E0596
    /// # fn write(array: &outboard::FarVec<u64>) -> Result<(), outboard::FarError> {
    /// let first = &array[0];
    /// array.mapping().try_write(0, &[7; 8], std::time::Duration::MAX)?;
    /// assert_eq!(*first, 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn mapping(&self) -> &FarMapping {
        &self.place
    }

    /// The region alone, for use by pointer.
    pub fn into_mapping(self) -> FarMapping {
        self.place
    }

    /// Flushes, and makes it read-only from now on, which makes faults cheaper. Others stay out as before.
    pub fn freeze(self) -> Result<FarSlice<T>, FarError> {
        Ok(FarSlice { mapping: self.place.freeze()?, len: self.len, elements: PhantomData })
    }

    /// Gives the region back to the server with all that is in it, whether it has a name or not.
    pub fn free(self) -> Result<(), FarError> {
        self.place.free()
    }

    /// Waits until the server has all that was written before the call.
    pub fn flush(&self) -> Result<(), FarError> {
        self.place.flush()
    }

    /// Flushes, and has the server write the region to the file that it was loaded from.
    pub fn sync(&self, deadline: Duration) -> Result<u64, FarError> {
        self.place.sync(deadline)
    }

    /// Makes the elements of `span` zero. Whole chunks of them take no memory afterwards, neither here nor at the server, until
    /// they are written again. After an error each byte is zero or as it was.
    pub fn discard(&mut self, span: Range<usize>) -> Result<(), FarError> {
        let bytes = self.bytes(span)?;
        self.place.discard(bytes)
    }

    /// Brings the elements of `span` here and keeps them here until [`unpin`](Self::unpin), so that system calls and devices can be
    /// given them. An array that moves because it grows has no pins afterwards.
    pub fn pin(&mut self, span: Range<usize>) -> Result<(), FarError> {
        let bytes = self.bytes(span)?;
        self.place.pin(bytes)
    }

    /// Ends all pins of this array.
    pub fn unpin(&mut self) {
        self.place.unpin();
    }
}

impl<T: Plain> FarVec<T, FarArena> {
    /// An array without elements in `arena`.
    pub fn new_in(arena: &FarArena) -> Self {
        page_aligned::<T>();
        let place = ArenaPlace::empty(arena, align_of::<T>());
        let capacity = room::<T>(0);
        Self { place, start: nowhere(align_of::<T>()).cast(), len: 0, capacity, used: 0 }
    }

    /// An array without elements in `arena`, with room for `capacity`.
    pub fn with_capacity_in(capacity: usize, arena: &FarArena) -> Result<Self, FarError> {
        let mut array = Self::new_in(arena);
        array.reserve_exact(capacity)?;
        Ok(array)
    }
}

/// How many elements so many bytes have room for.
fn room<T>(bytes: usize) -> usize {
    bytes.checked_div(size_of::<T>()).unwrap_or(usize::MAX)
}

impl<T: Plain, H: FarHome> FarVec<T, H> {
    /// How many elements it has room for where it is.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds an element at the end. After an error it is as it was; so it is with all that need room.
    #[inline]
    pub fn push(&mut self, element: T) -> Result<(), FarError> {
        if self.len == self.capacity {
            self.reserve(1)?;
        }
        // SAFETY: there is room for it, which is this array's alone.
        unsafe { self.start.add(self.len).write(element) };
        self.len += 1;
        Ok(())
    }

    /// Takes the last element away.
    pub fn pop(&mut self) -> Option<T> {
        let last = *self.last()?;
        self.truncate(self.len - 1);
        Some(last)
    }

    /// Adds elements at the end.
    pub fn extend_from_slice(&mut self, elements: &[T]) -> Result<(), FarError> {
        self.reserve(elements.len())?;
        // SAFETY: there is room for them, which is this array's alone, so that `elements` are others.
        unsafe {
            let end = self.start.add(self.len);
            end.copy_from_nonoverlapping(NonNull::from(elements).cast(), elements.len());
        }
        self.len += elements.len();
        Ok(())
    }

    /// Takes all elements but the first `len` away. Their place stays this array's, with what is in it, until
    /// [`shrink_to_fit`](Self::shrink_to_fit).
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.used = self.used.max(self.len);
            self.len = len;
        }
    }

    /// Takes all elements away, as [`truncate`](Self::truncate) does.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Takes elements away from the end, or adds such ones there, so that it has `len`. Zeros are free where nothing was written
    /// before: they touch nothing.
    pub fn resize(&mut self, len: usize, element: T) -> Result<(), FarError> {
        let Some(more) = len.checked_sub(self.len).filter(|more| *more > 0) else {
            self.truncate(len);
            return Ok(());
        };
        self.reserve(more)?;
        let is_zero = element.as_bytes().iter().all(|byte| *byte == 0);
        let end = if is_zero { len.min(self.used.max(self.len)) } else { len };
        for at in self.len..end {
            // SAFETY: there is room for it, which is this array's alone.
            unsafe { self.start.add(at).write(element) };
        }
        self.len = len;
        Ok(())
    }

    /// Has room for `more` elements, and for twice as many as now if it has to move.
    pub fn reserve(&mut self, more: usize) -> Result<(), FarError> {
        let needed = self.len.checked_add(more);
        let needed = needed.ok_or(FarError::TooLong { len: usize::MAX, element: size_of::<T>() })?;
        if needed <= self.capacity {
            return Ok(());
        }
        self.grow(needed.max(self.capacity.saturating_mul(2)))
            .or_else(|error| if self.capacity == 0 { Err(error) } else { self.grow(needed) })
    }

    /// Has room for `more` elements, and not for many others.
    pub fn reserve_exact(&mut self, more: usize) -> Result<(), FarError> {
        let needed = self.len.checked_add(more);
        let needed = needed.ok_or(FarError::TooLong { len: usize::MAX, element: size_of::<T>() })?;
        if needed > self.capacity { self.grow(needed) } else { Ok(()) }
    }

    fn grow(&mut self, capacity: usize) -> Result<(), FarError> {
        let layout = Layout::array::<T>(capacity);
        let layout = layout.map_err(|_| FarError::TooLong { len: capacity, element: size_of::<T>() })?;
        let zero = self.place.grow(layout.size(), self.len * size_of::<T>())?;
        self.moved(zero);
        Ok(())
    }

    /// Gives the memory up that has no elements in it, here and at the server. In a region of its own it keeps its room, which takes
    /// no memory then.
    pub fn shrink_to_fit(&mut self) -> Result<(), FarError> {
        if size_of::<T>() > 0 {
            let [kept, used] = [self.len, self.used.max(self.len)].map(|elements| elements * size_of::<T>());
            let zero = self.place.shrink(kept, used)?;
            self.moved(zero);
        }
        Ok(())
    }

    /// The place is another one, or may be, which is zero from this byte on.
    fn moved(&mut self, zero: usize) {
        self.start = self.place.start().cast();
        self.capacity = room::<T>(self.place.bytes());
        self.used = zero.div_ceil(size_of::<T>().max(1));
    }

    /// The first element.
    pub(super) fn first(&self) -> NonNull<T> {
        self.start
    }

    /// How many elements there are.
    pub(super) fn count(&self) -> usize {
        self.len
    }

    /// The region that it lies in, and where it begins there.
    pub(super) fn region(&self) -> (&FarMapping, usize) {
        let region = self.place.region();
        match self.place.bytes() {
            // What has no bytes is nowhere, and fits anywhere.
            0 => (region, 0),
            _ => (region, self.place.start().addr().get() - region.as_ptr().addr().get()),
        }
    }
}
