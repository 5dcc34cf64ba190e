//! Arrays in far memory.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

use super::FarError;
use super::home::FarHome;
use super::mapping::{Advice, FarMapping};
use super::vec::FarVec;

/// Types that are nothing but their bytes, so that they can live at a server and travel in messages: numbers, arrays of them, and
/// structures of them without padding. A structure becomes one by three derives of [`zerocopy`], which this crate exports.
///
/// ```
/// use outboard::zerocopy::{FromBytes, Immutable, IntoBytes};
///
/// #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
/// #[zerocopy(crate = "outboard::zerocopy")]
/// #[repr(C)]
/// struct Edge {
///     from: u32,
///     to: u32,
/// }
///
/// fn is_plain<T: outboard::Plain>() {}
/// is_plain::<Edge>();
/// is_plain::<[u64; 3]>();
/// ```
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

/// An array in far memory that this process may read, as others may. It is used like a slice.
pub struct FarSlice<T> {
    pub(super) mapping: FarMapping,
    pub(super) len: usize,
    pub(super) elements: PhantomData<T>,
}

impl<T: Plain> FarSlice<T> {
    /// As many elements as the region holds.
    pub(super) fn new(mapping: FarMapping) -> Result<Self, FarError> {
        page_aligned::<T>();
        let len = elements::<T>(&mapping)?;
        Ok(Self { mapping, len, elements: PhantomData })
    }

    /// The region beneath, for what concerns bytes.
    pub fn mapping(&self) -> &FarMapping {
        &self.mapping
    }

    /// The region alone, for use by pointer.
    pub fn into_mapping(self) -> FarMapping {
        self.mapping
    }

    /// Brings the elements of `span` here and keeps them here until [`unpin`](Self::unpin), so that system calls and devices can be
    /// given them.
    pub fn pin(&mut self, span: Range<usize>) -> Result<(), FarError> {
        let bytes = self.bytes(span)?;
        self.mapping.pin(bytes)
    }

    /// Ends all pins of this array.
    pub fn unpin(&mut self) {
        self.mapping.unpin();
    }

    /// How many elements there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.len
    }

    /// The first element.
    fn first(&self) -> NonNull<T> {
        self.mapping.as_ptr().cast()
    }

    /// How many elements there are.
    pub(super) fn count(&self) -> usize {
        self.len
    }

    /// The region that it lies in, and where it begins there.
    pub(super) fn region(&self) -> (&FarMapping, usize) {
        (&self.mapping, 0)
    }
}

/// Refuses types, when they are compiled, that regions cannot hold.
pub(super) fn page_aligned<T>() {
    const { assert!(align_of::<T>() <= PAGE_MIN, "{}", TOO_ALIGNED) };
}

/// How many elements a region holds.
pub(super) fn elements<T>(mapping: &FarMapping) -> Result<usize, FarError> {
    let (bytes, element) = (mapping.len(), size_of::<T>());
    if element == 0 || bytes % element != 0 {
        return Err(FarError::Uneven { name: mapping.name().to_owned(), bytes: bytes as u64, element });
    }
    Ok(bytes / element)
}

macro_rules! like_a_slice {
    (($($generics:tt)+) $array:ty) => {
        impl<$($generics)+> $array {
            /// Says how the elements of `span` will be used. What concerns the whole region beneath does so whatever the span.
            pub fn advise(&self, span: Range<usize>, advice: Advice) -> Result<(), FarError> {
                let (region, first) = self.region();
                let bytes = self.bytes(span)?;
                region.advise(first + bytes.start..first + bytes.end, advice)
            }

            /// Brings the elements of `span` here before they are needed, as far as the buffer has room for them.
            pub fn prefault(&self, span: Range<usize>) -> Result<(), FarError> {
                let (region, first) = self.region();
                let bytes = self.bytes(span)?;
                region.prefault(first + bytes.start..first + bytes.end)
            }

            /// Says that the elements of these spans will be touched next: they are fetched in the background, as
            /// [`FarMapping::prefetch`] does with bytes.
            pub fn prefetch(&self, spans: impl IntoIterator<Item = Range<usize>>) -> Result<(), FarError> {
                let (region, first) = self.region();
                let bytes = |span| self.bytes(span).map(|bytes| first + bytes.start..first + bytes.end);
                region.prefetch(spans.into_iter().map(bytes).collect::<Result<Vec<_>, _>>()?)
            }

            /// Which bytes of its place elements are.
            pub(super) fn bytes(&self, span: Range<usize>) -> Result<Range<usize>, FarError> {
                let byte = |at: usize| at.saturating_mul(size_of::<T>());
                let bytes = byte(span.start)..byte(span.end);
                if span.start > span.end || span.end > self.capacity() {
                    let Range { start, end } = bytes;
                    return Err(FarError::OutOfBounds { start, end, size: byte(self.capacity()) });
                }
                Ok(bytes)
            }
        }

        impl<$($generics)+> Deref for $array {
            type Target = [T];

            fn deref(&self) -> &[T] {
                // SAFETY: the place is mapped as long as `self`, aligned as `T` has to be, and holds this many elements, for
                // which any bytes will do. No thread writes to it while a shared reference lives: this process only by
                // `DerefMut`, and others not at all, for the server gives a region to one writer or to readers.
                unsafe { core::slice::from_raw_parts(self.first().as_ptr(), self.count()) }
            }
        }
    };
}

like_a_slice!((T: Plain, H: FarHome) FarVec<T, H>);
like_a_slice!((T: Plain) FarSlice<T>);

impl<T: Plain, H: FarHome> DerefMut for FarVec<T, H> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and this is the only reference.
        unsafe { core::slice::from_raw_parts_mut(self.first().as_ptr(), self.count()) }
    }
}
