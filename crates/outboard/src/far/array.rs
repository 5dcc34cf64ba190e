//! Arrays in far memory.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::time::Duration;

use super::FarError;
use super::mapping::{Advice, FarMapping};

/// Types that are nothing but their bytes, so that they can live at a server.
pub trait Plain:
    zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy + Send + Sync + 'static
{
}

impl<T> Plain for T where
    T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy + Send + Sync + 'static
{
}

/// Regions begin at pages, and no system has smaller ones.
const PAGE_MIN: usize = 4096;
const TOO_ALIGNED: &str = "far memory begins at pages: elements cannot be aligned to more than 4096 bytes";

/// An array in far memory that this process may write. It is used like a slice.
pub struct FarVec<T> {
    mapping: FarMapping,
    len: usize,
    elements: PhantomData<T>,
}

/// An array in far memory that this process may read, as others may. It is used like a slice.
pub struct FarSlice<T> {
    mapping: FarMapping,
    len: usize,
    elements: PhantomData<T>,
}

impl<T: Plain> FarVec<T> {
    pub(super) fn new(mapping: FarMapping, len: usize) -> Self {
        const { assert!(align_of::<T>() <= PAGE_MIN, "{}", TOO_ALIGNED) };
        assert!(len * size_of::<T>() <= mapping.len(), "the region was made for as many");
        Self { mapping, len, elements: PhantomData }
    }

    /// As many elements as the region holds.
    pub(super) fn whole(mapping: FarMapping) -> Result<Self, FarError> {
        let len = elements::<T>(&mapping)?;
        Ok(Self::new(mapping, len))
    }

    /// Flushes, and makes it read-only from now on, which makes faults cheaper. Others stay out as before.
    pub fn freeze(self) -> Result<FarSlice<T>, FarError> {
        Ok(FarSlice { mapping: self.mapping.freeze()?, len: self.len, elements: PhantomData })
    }

    /// Gives the region back to the server with all that is in it, whether it has a name or not.
    pub fn free(self) -> Result<(), FarError> {
        self.mapping.free()
    }

    /// Waits until the server has all that was written before the call.
    pub fn flush(&self) -> Result<(), FarError> {
        self.mapping.flush()
    }

    /// Flushes, and has the server write the region to the file that it was loaded from.
    pub fn sync(&self, patience: Duration) -> Result<u64, FarError> {
        self.mapping.sync(patience)
    }
}

impl<T: Plain> FarSlice<T> {
    /// As many elements as the region holds.
    pub(super) fn new(mapping: FarMapping) -> Result<Self, FarError> {
        const { assert!(align_of::<T>() <= PAGE_MIN, "{}", TOO_ALIGNED) };
        let len = elements::<T>(&mapping)?;
        Ok(Self { mapping, len, elements: PhantomData })
    }
}

/// How many elements a region holds.
fn elements<T>(mapping: &FarMapping) -> Result<usize, FarError> {
    let (bytes, element) = (mapping.len(), size_of::<T>());
    if element == 0 || bytes % element != 0 {
        return Err(FarError::Uneven { name: mapping.name().to_owned(), bytes: bytes as u64, element });
    }
    Ok(bytes / element)
}

macro_rules! like_a_slice {
    ($array:ident) => {
        impl<T: Plain> $array<T> {
            /// The region beneath, for what concerns bytes.
            pub fn mapping(&self) -> &FarMapping {
                &self.mapping
            }

            /// Says how the elements of `span` will be used.
            pub fn advise(&self, span: Range<usize>, advice: Advice) -> Result<(), FarError> {
                self.mapping.advise(self.bytes(span)?, advice)
            }

            /// Brings the elements of `span` here before they are needed, as far as the buffer has room for them.
            pub fn prefault(&self, span: Range<usize>) -> Result<(), FarError> {
                self.mapping.prefault(self.bytes(span)?)
            }

            /// Brings the elements of `span` here and keeps them here until [`unpin`](Self::unpin), so that system calls
            /// and devices can be given them.
            pub fn pin(&mut self, span: Range<usize>) -> Result<(), FarError> {
                let bytes = self.bytes(span)?;
                self.mapping.pin(bytes)
            }

            /// Ends all pins of this array.
            pub fn unpin(&mut self) {
                self.mapping.unpin();
            }

            fn bytes(&self, span: Range<usize>) -> Result<Range<usize>, FarError> {
                let byte = |at: usize| at.checked_mul(size_of::<T>());
                match (byte(span.start), byte(span.end)) {
                    (Some(start), Some(end)) => Ok(start..end),
                    _ => Err(FarError::TooLong { len: span.end, element: size_of::<T>() }),
                }
            }
        }

        impl<T: Plain> Deref for $array<T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                // SAFETY: the region is mapped as long as `self`, aligned to a page, and holds this many elements, for
                // which any bytes will do. Nobody writes to it while a shared reference lives: this process only by
                // `DerefMut`, and others not at all, for the server gives a region to one writer or to readers.
                unsafe { core::slice::from_raw_parts(self.mapping.as_ptr().as_ptr().cast(), self.len) }
            }
        }
    };
}

like_a_slice!(FarVec);
like_a_slice!(FarSlice);

impl<T: Plain> DerefMut for FarVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and this is the only reference.
        unsafe { core::slice::from_raw_parts_mut(self.mapping.as_ptr().as_ptr().cast(), self.len) }
    }
}
