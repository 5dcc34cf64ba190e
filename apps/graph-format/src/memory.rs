//! Large arrays, asked for politely.

use rayon::prelude::*;
use thiserror::Error;

/// This machine has not so much memory.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("there is not enough memory for {bytes} bytes; a smaller graph or a larger machine is needed")]
pub struct OutOfMemory {
    /// How much was asked for.
    pub bytes: u64,
}

/// So many zeros, written by all threads.
pub(crate) fn zeroed<T: Copy + Default + Send>(len: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut array = reserved(len)?;
    (0..len).into_par_iter().map(|_| T::default()).collect_into_vec(&mut array);
    Ok(array)
}

/// An empty array with room for so many.
pub(crate) fn reserved<T>(len: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut array = Vec::new();
    match array.try_reserve_exact(len) {
        Ok(()) => Ok(array),
        Err(_) => Err(OutOfMemory { bytes: (len as u64).saturating_mul(size_of::<T>() as u64) }),
    }
}
