//! Arrays that several workers read and write at once, element by element.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::arrays::FarNumber;

/// How one element is read and written while others do the same.
pub trait Element: Sized {
    /// The atomic of the same size and alignment.
    type Cell: Sync;

    /// What the cell holds.
    fn load(cell: &Self::Cell) -> Self;

    /// Puts a value into the cell.
    fn store(self, cell: &Self::Cell);

    /// The bits of the value, for checksums.
    fn bits(self) -> u64;
}

// Relaxed throughout: the elements of one array do not speak for those of another, and the end of a pass, at
// which all workers meet, orders everything before it against everything after.
macro_rules! element {
    ($type:ty, $cell:ty, $to_bits:expr, $from_bits:expr) => {
        impl Element for $type {
            type Cell = $cell;

            fn load(cell: &$cell) -> Self {
                $from_bits(cell.load(Ordering::Relaxed))
            }

            fn store(self, cell: &$cell) {
                cell.store($to_bits(self), Ordering::Relaxed);
            }

            fn bits(self) -> u64 {
                $to_bits(self).into()
            }
        }
    };
}

element!(u32, AtomicU32, std::convert::identity, std::convert::identity);
element!(u64, AtomicU64, std::convert::identity, std::convert::identity);
element!(f32, AtomicU32, f32::to_bits, f32::from_bits);
element!(f64, AtomicU64, f64::to_bits, f64::from_bits);

/// A borrowed array whose elements are atomics for as long as it is borrowed.
pub(crate) struct Shared<'a, T: FarNumber> {
    cells: &'a [T::Cell],
}

impl<T: FarNumber> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: FarNumber> Copy for Shared<'_, T> {}

impl<'a, T: FarNumber> Shared<'a, T> {
    /// Shares an array that no other thread uses.
    pub(crate) fn new(array: &'a mut [T]) -> Self {
        Self { cells: cells(array) }
    }

    /// One element.
    pub(crate) fn get(self, index: usize) -> T {
        T::load(&self.cells[index])
    }

    /// Sets one element.
    pub(crate) fn set(self, index: usize, value: T) {
        value.store(&self.cells[index]);
    }

    /// The atomic beneath one element.
    pub(crate) fn cell(self, index: usize) -> &'a T::Cell {
        &self.cells[index]
    }
}

#[allow(unsafe_code)]
fn cells<T: FarNumber>(array: &mut [T]) -> &[T::Cell] {
    const {
        assert!(size_of::<T>() == size_of::<T::Cell>());
        assert!(align_of::<T>() == align_of::<T::Cell>());
    }
    // SAFETY: the array is borrowed mutably for as long as the cells live, so that they are the only way to its
    // memory. `FarNumber` is sealed: `T` is one of the four numbers above, its cell an atomic of the same size and
    // alignment (asserted above), and every pattern of bits is a value of both.
    unsafe { &*(std::ptr::from_mut(array) as *const [T::Cell]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_through_cells_is_in_the_array() {
        let mut numbers = [1.5f64, -0.0, f64::MAX];
        let shared = Shared::new(&mut numbers);
        shared.set(0, shared.get(2));
        shared.cell(2).fetch_xor(1 << 63, Ordering::Relaxed);
        assert_eq!(shared.get(1).to_bits(), (-0.0f64).to_bits());
        assert_eq!(numbers, [f64::MAX, -0.0, f64::MIN]);

        let mut words = [7u32, 8];
        let shared = Shared::new(&mut words);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..100).for_each(|_| _ = shared.cell(1).fetch_add(1, Ordering::Relaxed)));
            }
        });
        assert_eq!(words, [7, 408]);
    }
}
