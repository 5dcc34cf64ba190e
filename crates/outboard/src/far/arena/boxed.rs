//! One value in an arena.

use std::alloc::Layout;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::FarArena;
use crate::far::{FarError, Plain};

/// One value in a [`FarArena`], behind a plain pointer. It is used like a [`Box`].
///
/// Its type is [`Plain`]: any bytes are a value of it, so that a memory server or an agent that gives back others than it was
/// given can make values wrong, and never the program unsound. A type with pointers in it is not; for such there is the arena's
/// [allocator](FarArena::allocator), which says what is asked of the server then.
pub struct FarBox<T: Plain> {
    place: NonNull<T>,
    arena: FarArena,
}

// SAFETY: it owns its value alone, and an arena may be used by all threads.
unsafe impl<T: Plain> Send for FarBox<T> {}
// SAFETY: a shared reference to it gives shared references to its value alone.
unsafe impl<T: Plain> Sync for FarBox<T> {}

impl<T: Plain> FarBox<T> {
    /// Puts a value into `arena`.
    pub fn new_in(value: T, arena: &FarArena) -> Result<Self, FarError> {
        let place = arena.alloc(Layout::new::<T>())?.cast::<T>();
        // SAFETY: a block for a `T`, which is this box's alone.
        unsafe { place.write(value) };
        Ok(Self { place, arena: arena.clone() })
    }

    /// A value of zeros in `arena`, which is not touched unless it has to be filled: for what is too long to be made elsewhere
    /// first.
    pub fn zeroed_in(arena: &FarArena) -> Result<Self, FarError> {
        let place = arena.alloc_zeroed(Layout::new::<T>())?.cast::<T>();
        Ok(Self { place, arena: arena.clone() })
    }

    /// The value, which leaves the arena.
    pub fn into_inner(self) -> T {
        *self
    }
}

impl<T: Plain> Deref for FarBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a block for a `T`, which was filled, is this box's alone, and stays while the box has the arena. Any bytes are a
        // value.
        unsafe { self.place.as_ref() }
    }
}

impl<T: Plain> DerefMut for FarBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and this is the only reference.
        unsafe { self.place.as_mut() }
    }
}

impl<T: Plain> Drop for FarBox<T> {
    fn drop(&mut self) {
        // What is plain has nothing to drop.
        self.arena.give(self.place.cast(), Layout::new::<T>());
    }
}

impl<T: Plain + fmt::Debug> fmt::Debug for FarBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
