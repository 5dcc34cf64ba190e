//! Arrays looked through piece by piece, without room for all of them.

use std::fs::File;

use super::{ImageArray, check_length};
use crate::error::ReadError;
use crate::progress::FormatProgress;
use crate::words::{self, Word};

/// How many numbers are looked at together.
const PIECE: usize = 1 << 18;

/// Looks through the arrays of an image, offsets and targets in turn.
pub(super) fn arrays(arrays: &[ImageArray], progress: &dyn FormatProgress) -> Result<(), ReadError> {
    for pair in arrays.chunks_exact(2) {
        let (offsets, targets) = (&pair[0], &pair[1]);
        let last = each(offsets, progress, (0, 0), |(before, index), offset: u64| match index {
            0 if offset != 0 => Err("0".to_owned()),
            _ if offset < before => Err(format!("an offset of at least {before}")),
            _ if index + 1 == offsets.len && offset != targets.len => {
                Err(format!("{}, the number of edges", targets.len))
            }
            _ => Ok((offset, index + 1)),
        });
        last?;
        let vertices = offsets.len - 1;
        each(targets, progress, (), |(), target: u32| match u64::from(target) < vertices {
            true => Ok(()),
            false => Err(format!("a vertex below {vertices}")),
        })?;
    }
    Ok(())
}

/// Goes through an array with what is known so far; `step` says what was expected in place of a wrong number.
fn each<T: Word + ToString, K: Copy>(
    array: &ImageArray,
    progress: &dyn FormatProgress,
    begin: K,
    step: impl Fn(K, T) -> Result<K, String>,
) -> Result<K, ReadError> {
    check_length(array)?;
    let failed = |source| ReadError::Io { path: array.path.clone(), source };
    let mut file = File::open(&array.path).map_err(failed)?;
    let mut piece = vec![T::default(); PIECE.min(array.len as usize)];
    let mut known = begin;
    let mut done = 0;
    while done < array.len {
        let count = piece.len().min((array.len - done) as usize);
        words::read(&mut file, &mut piece[..count], progress).map_err(failed)?;
        for (number, index) in piece[..count].iter().zip(done..) {
            known = step(known, *number).map_err(|expected| ReadError::Bytes {
                path: array.path.clone(),
                offset: index * array.word_bytes,
                expected,
                found: number.to_string(),
            })?;
        }
        done += count as u64;
    }
    Ok(known)
}
