//! Compressed sparse rows: who is whose neighbour, in two arrays.

use std::ops::Range;

use rayon::prelude::*;
use thiserror::Error;

use crate::memory::OutOfMemory;

/// The most vertices a graph can have. Vertices are numbered from 0 in 32 bits, and the largest number of all is
/// left free, so that programs can use it for "no vertex".
pub const VERTICES_MAX: u64 = u32::MAX as u64;

/// The neighbours of vertex `v` are `targets[offsets[v]..offsets[v + 1]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Csr {
    offsets: Vec<u64>,
    targets: Vec<u32>,
}

/// Why two arrays are no compressed sparse rows.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CsrError {
    /// Even a graph without vertices has one offset.
    #[error("there are no offsets; a graph of n vertices has n + 1 of them")]
    NoOffsets,
    /// Vertex numbers have 32 bits.
    #[error("{vertices} vertices are too many: at most {VERTICES_MAX} can be numbered")]
    TooManyVertices {
        /// How many there would be.
        vertices: u64,
    },
    /// The first neighbour is at 0.
    #[error("the first offset is {found} instead of 0")]
    FirstOffset {
        /// What it is.
        found: u64,
    },
    /// A vertex has fewer than no neighbours.
    #[error("the offsets of vertex {vertex} run backwards, from {begin} to {end}")]
    Backwards {
        /// Whose neighbours.
        vertex: u64,
        /// Where they begin.
        begin: u64,
        /// Where they would end.
        end: u64,
    },
    /// The offsets and the neighbours do not belong together.
    #[error("the last offset is {found}, but there are {edges} neighbours")]
    LastOffset {
        /// What it is.
        found: u64,
        /// What it should be.
        edges: u64,
    },
    /// A neighbour is no vertex.
    #[error("neighbour number {position} is vertex {target}, but there are only {vertices} vertices")]
    NoSuchVertex {
        /// Which entry of the array of neighbours.
        position: u64,
        /// What it says.
        target: u32,
        /// How many vertices there are.
        vertices: u64,
    },
}

impl Csr {
    /// Takes the arrays if they belong together.
    pub fn new(offsets: Vec<u64>, targets: Vec<u32>) -> Result<Self, CsrError> {
        Self::check(&offsets, &targets)?;
        Ok(Self { offsets, targets })
    }

    /// Says whether two arrays are compressed sparse rows, wherever they lie.
    pub fn check(offsets: &[u64], targets: &[u32]) -> Result<(), CsrError> {
        let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
            return Err(CsrError::NoOffsets);
        };
        let vertices = offsets.len() as u64 - 1;
        if vertices > VERTICES_MAX {
            return Err(CsrError::TooManyVertices { vertices });
        }
        if first != 0 {
            return Err(CsrError::FirstOffset { found: first });
        }
        if let Some(vertex) = offsets.par_windows(2).position_first(|pair| pair[0] > pair[1]) {
            let (begin, end) = (offsets[vertex], offsets[vertex + 1]);
            return Err(CsrError::Backwards { vertex: vertex as u64, begin, end });
        }
        if last != targets.len() as u64 {
            return Err(CsrError::LastOffset { found: last, edges: targets.len() as u64 });
        }
        match targets.par_iter().position_first(|target| u64::from(*target) >= vertices) {
            None => Ok(()),
            Some(at) => Err(CsrError::NoSuchVertex { position: at as u64, target: targets[at], vertices }),
        }
    }

    /// Takes arrays that were made so that they belong together.
    pub(crate) fn trusted(offsets: Vec<u64>, targets: Vec<u32>) -> Self {
        debug_assert_eq!(Self::check(&offsets, &targets), Ok(()));
        Self { offsets, targets }
    }

    /// How many vertices.
    pub fn vertices(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many edges, each direction counted.
    pub fn edges(&self) -> usize {
        self.targets.len()
    }

    /// Where each vertex's neighbours begin, and at the end the number of edges.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The neighbours of vertex 0, then those of vertex 1, and so on.
    pub fn targets(&self) -> &[u32] {
        &self.targets
    }

    /// Both arrays.
    pub fn into_parts(self) -> (Vec<u64>, Vec<u32>) {
        (self.offsets, self.targets)
    }

    /// Where a vertex's neighbours lie among the targets.
    pub(crate) fn range(&self, vertex: usize) -> Range<usize> {
        // Offsets are at most the length of a `Vec`, so they fit.
        self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize
    }

    /// The vertices that an edge leads to from this one.
    ///
    /// # Panics
    /// If there is no such vertex.
    pub fn neighbours(&self, vertex: usize) -> &[u32] {
        &self.targets[self.range(vertex)]
    }

    /// The largest number of neighbours of any vertex.
    pub fn degree_max(&self) -> u64 {
        self.offsets.par_windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// Cuts the vertices into at most so many ranges of about as many edges each.
    pub(crate) fn blocks(&self, most: usize) -> Vec<Range<usize>> {
        // A vertex without edges costs something too.
        let cost = |vertex: usize| self.offsets[vertex] as usize + vertex;
        let total = self.edges() + self.vertices();
        let mut blocks = Vec::new();
        let mut begin = 0;
        for number in 1..=most.max(1) {
            let wanted = (total as u128 * number as u128 / most.max(1) as u128) as usize;
            let end = partition_point(begin..self.vertices(), |vertex| cost(vertex + 1) <= wanted);
            if end > begin {
                blocks.push(begin..end);
                begin = end;
            }
        }
        if begin < self.vertices() {
            blocks.push(begin..self.vertices());
        }
        blocks
    }

    /// Puts each vertex's neighbours in ascending order.
    pub(crate) fn sort(&mut self) {
        let blocks = self.blocks(BLOCKS);
        let ends = blocks.iter().map(|block| self.offsets[block.end] as usize);
        let lists: Vec<_> = blocks.iter().cloned().zip(split(&mut self.targets, ends)).collect();
        let offsets = &self.offsets;
        lists.into_par_iter().for_each(|(block, targets)| {
            let base = offsets[block.start];
            for vertex in block {
                let (begin, end) = (offsets[vertex] - base, offsets[vertex + 1] - base);
                targets[begin as usize..end as usize].sort_unstable();
            }
        });
    }

    /// Whether each vertex's neighbours are in ascending order.
    pub(crate) fn is_sorted(&self) -> bool {
        (0..self.vertices()).into_par_iter().all(|vertex| self.neighbours(vertex).is_sorted())
    }

    /// A number that two sets of edges have in common if they are the same, and hardly otherwise. With `turned`,
    /// that of the edges the other way round.
    pub(crate) fn fingerprint(&self, turned: bool) -> u64 {
        let of =
            |from: u32, to: u32| crate::random::mix((u64::from(from) << 32 | u64::from(to)).wrapping_add(1));
        let vertex = |vertex: usize| {
            let from = vertex as u32;
            let edges = self.neighbours(vertex).iter();
            edges.fold(0u64, |sum, &to| sum.wrapping_add(if turned { of(to, from) } else { of(from, to) }))
        };
        (0..self.vertices()).into_par_iter().map(vertex).reduce(|| 0, u64::wrapping_add)
    }

    /// The edges of this and the other together. One that both have counts once; where it is there several times,
    /// as often as in the one that has it more often. Both must be sorted and have the same vertices.
    pub(crate) fn union(&self, other: &Self) -> Result<Self, OutOfMemory> {
        let merged = |vertex: usize| Merge(self.neighbours(vertex), other.neighbours(vertex));
        let mut offsets = crate::memory::zeroed::<u64>(self.offsets.len())?;
        offsets[1..].par_iter_mut().enumerate().for_each(|(vertex, n)| *n = merged(vertex).count() as u64);
        let mut sum = 0;
        for offset in &mut offsets {
            sum += *offset;
            *offset = sum;
        }
        let mut targets = crate::memory::zeroed::<u32>(sum as usize)?;
        let blocks = self.blocks(BLOCKS);
        let ends = blocks.iter().map(|block| offsets[block.end] as usize);
        let lists: Vec<_> = blocks.iter().cloned().zip(split(&mut targets, ends)).collect();
        lists.into_par_iter().for_each(|(block, targets)| {
            block.flat_map(merged).zip(targets).for_each(|(from, to)| *to = from);
        });
        Ok(Self::trusted(offsets, targets))
    }
}

/// Enough pieces of work for any number of threads, and few enough to be cheap.
pub(crate) const BLOCKS: usize = 256;

/// Cuts a slice at the given positions, which ascend; what follows the last one is left out.
pub(crate) fn split<T>(mut rest: &mut [T], ends: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut begin = 0;
    let mut parts = Vec::new();
    for end in ends {
        let (part, after) = rest.split_at_mut(end - begin);
        parts.push(part);
        (rest, begin) = (after, end);
    }
    parts
}

/// The first number of a range for which something does not hold, if it holds for all before it.
fn partition_point(range: Range<usize>, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (range.start, range.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Two ascending lists as one; what is in both comes once.
struct Merge<'a>(&'a [u32], &'a [u32]);

impl Iterator for Merge<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (first, second) = (self.0.first().copied(), self.1.first().copied());
        let next = match (first, second) {
            (Some(first), Some(second)) => first.min(second),
            (first, second) => first.or(second)?,
        };
        if first == Some(next) {
            self.0 = &self.0[1..];
        }
        if second == Some(next) {
            self.1 = &self.1[1..];
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests;
