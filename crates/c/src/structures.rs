//! Structures that begin with their size.
//!
//! They can become longer in later releases. A program that was compiled with a shorter one gets the defaults of what it does not
//! know; one that was compiled with a longer one is refused only if it asks for something that is not known here.

use std::mem::MaybeUninit;

use crate::status::Failure;

/// A structure of C whose first field is its size.
///
/// # Safety
///
/// All zeros are one, its first field is a `usize`, and it has no padding but behind what a shorter version ends with.
pub(crate) unsafe trait Structure: Copy {
    /// Its name in C.
    const NAME: &'static str;
    /// How long it was in the first release that had it.
    const FIRST: usize;
}

/// The structure without anything set.
pub(crate) fn zero<T: Structure>() -> T {
    // SAFETY: all zeros are one, which the trait demands.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// How long the structure at `pointer` says that it is.
///
/// # Safety
///
/// `pointer` is to at least a size.
unsafe fn size_of_it<T: Structure>(pointer: *const T) -> Result<usize, Failure> {
    // SAFETY: by the contract above.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    if size < T::FIRST {
        let (name, first) = (T::NAME, T::FIRST);
        return Err(Failure::invalid(format!(
            "the size of the {name} is {size}, and has to be at least {first}: set it to sizeof({name})"
        )));
    }
    Ok(size)
}

/// Reads options; NULL are the defaults.
///
/// # Safety
///
/// `pointer` is NULL, or to as many bytes as its first field says.
pub(crate) unsafe fn read<T: Structure>(pointer: *const T) -> Result<T, Failure> {
    let mut options = zero::<T>();
    if pointer.is_null() {
        return Ok(options);
    }
    // SAFETY: by the contract above.
    let size = unsafe { size_of_it(pointer)? };
    let (known, name) = (size_of::<T>(), T::NAME);
    if size > 4096 {
        return Err(Failure::invalid(format!("the size of the {name} is {size}: set it to sizeof({name})")));
    }
    for at in known..size {
        // SAFETY: inside of what the caller says is there.
        if unsafe { pointer.cast::<u8>().add(at).read() } != 0 {
            return Err(Failure::invalid(format!(
                "the {name} asks for something that this version of the library does not know (at byte {at} of {size})"
            )));
        }
    }
    // SAFETY: as many bytes as both have, of a structure of plain numbers and pointers, for which any bytes will do.
    unsafe {
        pointer.cast::<u8>().copy_to_nonoverlapping((&raw mut options).cast(), size.min(known));
    }
    Ok(options)
}

/// Fills a structure of the caller, as far as it is there, but for its size.
///
/// # Safety
///
/// `pointer` is to as many bytes as its first field says, which may be written.
pub(crate) unsafe fn fill<T: Structure>(pointer: *mut T, value: &T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::invalid(format!("the {} is NULL", T::NAME)));
    }
    // SAFETY: by the contract above.
    let size = unsafe { size_of_it(pointer)? }.min(size_of::<T>());
    let head = size_of::<usize>();
    // SAFETY: as many bytes as both have.
    unsafe {
        let from = std::ptr::from_ref(value).cast::<u8>().add(head);
        from.copy_to_nonoverlapping(pointer.cast::<u8>().add(head), size - head);
    }
    Ok(())
}

/// Says that a type is such a structure, now in its first version.
macro_rules! sized {
    ($($name:ident),+ $(,)?) => {
        $(
            // SAFETY: a `repr(C)` structure of numbers and pointers, whose first field is its size.
            unsafe impl $crate::structures::Structure for $name {
                const NAME: &'static str = stringify!($name);
                const FIRST: usize = size_of::<$name>();
            }
        )+
    };
}
pub(crate) use sized;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Now {
        size: usize,
        one: u64,
        two: u64,
    }

    // SAFETY: numbers.
    unsafe impl Structure for Now {
        const NAME: &'static str = "now";
        const FIRST: usize = 16;
    }

    fn read_words(words: &[u64]) -> Result<Now, String> {
        // SAFETY: the words say how many they are, or too few.
        unsafe { read(words.as_ptr().cast::<Now>()) }.map_err(|failure| failure.text.into_owned())
    }

    #[test]
    fn options_of_earlier_and_later_versions_are_read() {
        // SAFETY: NULL are the defaults.
        assert_eq!(unsafe { read::<Now>(std::ptr::null()) }.unwrap(), Now { size: 0, one: 0, two: 0 });
        assert_eq!(read_words(&[24, 1, 2]).unwrap(), Now { size: 24, one: 1, two: 2 });
        assert_eq!(read_words(&[16, 1]).unwrap(), Now { size: 16, one: 1, two: 0 });
        assert_eq!(read_words(&[40, 1, 2, 0, 0]).unwrap(), Now { size: 40, one: 1, two: 2 });
        assert!(read_words(&[40, 1, 2, 0, 3]).unwrap_err().contains("does not know (at byte 32"));
    }

    #[test]
    fn sizes_that_cannot_be_are_refused() {
        for size in [0, 8, 15, 4097, u64::MAX] {
            assert!(read_words(&[size]).unwrap_err().contains("sizeof(now)"), "{size}");
        }
    }

    #[test]
    fn only_what_is_there_is_filled() {
        let mut words = [16u64, 7, 7];
        let value = Now { size: 99, one: 1, two: 2 };
        // SAFETY: there are more words than the first one says.
        unsafe { fill(words.as_mut_ptr().cast::<Now>(), &value) }.unwrap();
        assert_eq!(words, [16, 1, 7]);
    }
}
