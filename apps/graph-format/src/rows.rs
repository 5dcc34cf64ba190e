//! Rows as they lie in binary files.

use std::path::PathBuf;

use rayon::prelude::*;

use crate::csr::{Csr, CsrError};
use crate::error::ReadError;

/// Where an array lies.
pub(crate) struct Place {
    /// In which file.
    pub(crate) path: PathBuf,
    /// Where its first number lies in it.
    pub(crate) begin: u64,
    /// How many bytes each number has.
    pub(crate) width: u64,
}

/// Makes rows, or says which bytes are wrong.
pub(crate) fn checked(
    (offsets, offsets_place): (Vec<u64>, Place),
    (targets, targets_place): (Vec<u32>, Place),
) -> Result<Csr, ReadError> {
    let last = offsets.len().saturating_sub(1) as u64;
    Csr::new(offsets, targets).map_err(|error| {
        let (place, index, expected, found) = match error {
            CsrError::FirstOffset { found } => (offsets_place, 0, "0".to_owned(), found),
            CsrError::Backwards { vertex, begin, end } => {
                (offsets_place, vertex + 1, format!("an offset of at least {begin}"), end)
            }
            CsrError::LastOffset { found, edges } => {
                (offsets_place, last, format!("{edges}, the number of edges"), found)
            }
            CsrError::NoSuchVertex { position, target, vertices } => {
                (targets_place, position, format!("a vertex below {vertices}"), u64::from(target))
            }
            source => return ReadError::Rows { path: offsets_place.path, source },
        };
        let Place { path, begin, width } = place;
        ReadError::Bytes { path, offset: begin + index * width, expected, found: found.to_string() }
    })
}

/// How many edges of sorted rows do not lead to a smaller vertex: half of a symmetric graph, and its self loops.
pub(crate) fn upper_half(rows: &Csr) -> usize {
    let of = |vertex: usize| {
        let neighbours = rows.neighbours(vertex);
        neighbours.len() - neighbours.partition_point(|target| (*target as usize) < vertex)
    };
    (0..rows.vertices()).into_par_iter().map(of).sum()
}
