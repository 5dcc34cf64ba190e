//! New numbers for vertices whose numbers have gaps.

use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use crate::edge_list::EdgeList;
use crate::memory::{OutOfMemory, reserved, zeroed};

/// Gives the vertices of the edges the numbers from 0 on, in the same order. Returns how many there are.
pub(super) fn renumber(edges: &mut EdgeList) -> Result<u64, OutOfMemory> {
    let Some(largest) = edges.vertex_max() else { return Ok(0) };
    /// A bit for every number takes less memory than the edges themselves, or a list of the numbers does.
    const NUMBERS_PER_EDGE: u64 = 64;
    if u64::from(largest) / NUMBERS_PER_EDGE > edges.len() as u64 {
        return Listed::new(edges)?.apply(edges);
    }
    Marked::new(edges, largest)?.apply(edges)
}

trait Numbering: Sync + Sized {
    fn vertices(&self) -> u64;
    fn number(&self, old: u32) -> u32;

    fn apply(self, edges: &mut EdgeList) -> Result<u64, OutOfMemory> {
        edges.pieces_mut().par_iter_mut().flatten_iter().for_each(|(from, to)| {
            (*from, *to) = (self.number(*from), self.number(*to));
        });
        Ok(self.vertices())
    }
}

/// A bit for each number that is used, and before each word of bits how many there are.
struct Marked {
    bits: Vec<AtomicU64>,
    before: Vec<u32>,
    vertices: u64,
}

impl Marked {
    fn new(edges: &EdgeList, largest: u32) -> Result<Self, OutOfMemory> {
        let words = largest as usize / 64 + 1;
        let mut bits = reserved(words)?;
        (0..words).into_par_iter().map(|_| AtomicU64::new(0)).collect_into_vec(&mut bits);
        let mark = |number: u32| {
            let (word, bit) = (&bits[number as usize / 64], 1 << (number % 64));
            // Popular vertices come again and again; to look costs less than to write.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        };
        edges.pieces().par_iter().flatten_iter().for_each(|(from, to)| {
            mark(*from);
            mark(*to);
        });
        let mut before = zeroed(words)?;
        let mut vertices = 0;
        for (before, word) in before.iter_mut().zip(&bits) {
            *before = vertices;
            vertices += word.load(Ordering::Relaxed).count_ones();
        }
        Ok(Self { bits, before, vertices: u64::from(vertices) })
    }
}

impl Numbering for Marked {
    fn vertices(&self) -> u64 {
        self.vertices
    }

    fn number(&self, old: u32) -> u32 {
        let (word, bit) = (old as usize / 64, 1u64 << (old % 64));
        self.before[word] + (self.bits[word].load(Ordering::Relaxed) & (bit - 1)).count_ones()
    }
}

/// The numbers that are used, in ascending order.
struct Listed(Vec<u32>);

impl Listed {
    fn new(edges: &EdgeList) -> Result<Self, OutOfMemory> {
        let mut numbers = reserved(2 * edges.len())?;
        numbers.extend(edges.pieces().iter().flatten().flat_map(|(from, to)| [*from, *to]));
        numbers.par_sort_unstable();
        numbers.dedup();
        Ok(Self(numbers))
    }
}

impl Numbering for Listed {
    fn vertices(&self) -> u64 {
        self.0.len() as u64
    }

    fn number(&self, old: u32) -> u32 {
        self.0.partition_point(|number| *number < old) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_same_numbers_without_gaps() {
        let old = [(9, 4), (4, 70_000), (3, 3), (128, 9), (64, 63)];
        let new = vec![(2, 1), (1, 6), (0, 0), (5, 2), (4, 3)];
        let list = || old.into_iter().collect::<EdgeList>();
        let (mut marked, mut listed) = (list(), list());
        assert_eq!(Marked::new(&marked, 70_000).unwrap().apply(&mut marked), Ok(7));
        assert_eq!(Listed::new(&listed).unwrap().apply(&mut listed), Ok(7));
        assert_eq!((marked.pieces(), listed.pieces()), (&[new.clone()][..], &[new][..]));
        assert_eq!(renumber(&mut EdgeList::default()), Ok(0));
    }
}
