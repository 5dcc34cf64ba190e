//! Where the state of vertices lies.

use std::error::Error;
use std::ops::DerefMut;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::shared::Element;

/// A number that far memory can hold: all its patterns of bits are values, zero bits are zero.
///
/// Implemented for `u32`, `u64`, `f32` and `f64`, and for nothing else.
pub trait Plain:
    Element + FromBytes + IntoBytes + Immutable + Copy + Default + Send + Sync + 'static
{
}

impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for f32 {}
impl Plain for f64 {}

/// Gives out arrays for the state of vertices: ranks, levels, labels.
pub trait Arrays {
    /// An array of numbers that behaves like a slice.
    type Array<T: Plain>: DerefMut<Target = [T]> + Send + Sync;
    /// Why there is no such array.
    type Error: Error + Send + Sync + 'static;

    /// An array of zeros. The name says what it is for, and is the same in every run.
    fn zeroed<T: Plain>(&self, len: usize, name: &'static str) -> Result<Self::Array<T>, Self::Error>;
}

/// Ordinary memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dram;

/// This process gets no more memory.
#[derive(Debug, thiserror::Error)]
#[error("this machine has no {bytes} bytes of memory left; use far memory or a smaller graph")]
pub struct OutOfMemory {
    /// How much was wanted.
    pub bytes: usize,
    source: std::collections::TryReserveError,
}

impl Arrays for Dram {
    type Array<T: Plain> = Vec<T>;
    type Error = OutOfMemory;

    fn zeroed<T: Plain>(&self, len: usize, _name: &'static str) -> Result<Vec<T>, OutOfMemory> {
        let mut array = Vec::new();
        array
            .try_reserve_exact(len)
            .map_err(|source| OutOfMemory { bytes: len.saturating_mul(size_of::<T>()), source })?;
        array.resize(len, T::default());
        Ok(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_zero_and_too_large_ones_are_an_error() {
        assert_eq!(Dram.zeroed::<f32>(3, "ranks").unwrap(), [0.0; 3]);
        let error = Dram.zeroed::<u64>(usize::MAX / 8, "masks").unwrap_err();
        assert_eq!(error.bytes, usize::MAX / 8 * 8);
    }
}
