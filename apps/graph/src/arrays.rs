//! Where the state of vertices lies.

use std::error::Error;
use std::ops::DerefMut;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::application::{Application, ApplicationOptions, ApplicationOutcome};
use crate::run::{RunContext, RunError};
use crate::shared::Element;
use crate::view::GraphView;

/// A number that far memory can hold: all its patterns of bits are values, zero bits are zero.
///
/// Implemented for `u32`, `u64`, `f32` and `f64`, and for nothing else.
pub trait FarNumber:
    Element + FromBytes + IntoBytes + Immutable + Copy + Default + Send + Sync + 'static
{
}

impl FarNumber for u32 {}
impl FarNumber for u64 {}
impl FarNumber for f32 {}
impl FarNumber for f64 {}

/// Gives out arrays for the state of vertices: ranks, levels, labels.
pub trait Arrays {
    /// An array of numbers that behaves like a slice.
    type Array<T: FarNumber>: DerefMut<Target = [T]> + Send + Sync;
    /// Why there is no such array.
    type Error: Error + Send + Sync + 'static;

    /// An array of zeros. The name says what it is for, and is the same in every run.
    fn zeroed<T: FarNumber>(&self, len: usize, name: &'static str) -> Result<Self::Array<T>, Self::Error>;

    /// Runs an application on these arrays. What this crate offers does so in code that is compiled with this crate, and not once
    /// more with every program that runs applications.
    fn run(
        application: Application,
        graph: GraphView<'_>,
        options: &ApplicationOptions,
        run: &RunContext<'_, Self>,
    ) -> Result<ApplicationOutcome<Self>, RunError>
    where
        Self: Sized,
    {
        application.run_on(graph, options, run)
    }
}

/// Ordinary memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dram;

/// This process gets no more memory.
#[derive(Debug, thiserror::Error)]
#[error("this machine has no {bytes} bytes of memory left; use far memory or a smaller graph")]
pub struct NoArrayMemory {
    /// How much was wanted.
    pub bytes: usize,
    source: std::collections::TryReserveError,
}

impl Arrays for Dram {
    type Array<T: FarNumber> = Vec<T>;
    type Error = NoArrayMemory;

    fn zeroed<T: FarNumber>(&self, len: usize, _name: &'static str) -> Result<Vec<T>, NoArrayMemory> {
        let mut array = Vec::new();
        array
            .try_reserve_exact(len)
            .map_err(|source| NoArrayMemory { bytes: len.saturating_mul(size_of::<T>()), source })?;
        array.resize(len, T::default());
        Ok(array)
    }

    fn run(
        application: Application,
        graph: GraphView<'_>,
        options: &ApplicationOptions,
        run: &RunContext<'_, Self>,
    ) -> Result<ApplicationOutcome<Self>, RunError> {
        application.run_on(graph, options, run)
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
