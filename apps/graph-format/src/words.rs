//! Arrays of numbers as they lie in files: one after the other, the lowest byte first.

use std::io::{self, Read, Write};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::progress::FormatProgress;

/// A number in an array.
pub(crate) trait Word: FromBytes + IntoBytes + Immutable + Copy + Default + Send {
    /// Between the order of bytes in files and that of this machine, in either direction.
    fn in_file_order(self) -> Self;
}

impl Word for u32 {
    fn in_file_order(self) -> Self {
        self.to_le()
    }
}

impl Word for u64 {
    fn in_file_order(self) -> Self {
        self.to_le()
    }
}

/// How many bytes are read or written before progress is told.
const STEP: usize = 4 << 20;

/// Fills an array.
pub(crate) fn read<T: Word>(
    from: &mut impl Read,
    words: &mut [T],
    progress: &dyn FormatProgress,
) -> io::Result<()> {
    for part in words.chunks_mut(STEP / size_of::<T>()) {
        from.read_exact(part.as_mut_bytes())?;
        if cfg!(target_endian = "big") {
            part.iter_mut().for_each(|word| *word = word.in_file_order());
        }
        progress.advance(size_of_val(part) as u64);
    }
    Ok(())
}

/// Writes an array.
pub(crate) fn write<T: Word>(
    to: &mut impl Write,
    words: &[T],
    progress: &dyn FormatProgress,
) -> io::Result<()> {
    for part in words.chunks(STEP / size_of::<T>()) {
        if cfg!(target_endian = "big") {
            let turned: Vec<T> = part.iter().map(|word| word.in_file_order()).collect();
            to.write_all(turned.as_bytes())?;
        } else {
            to.write_all(part.as_bytes())?;
        }
        progress.advance(size_of_val(part) as u64);
    }
    Ok(())
}
