//! From edges in any order to compressed sparse rows.
//!
//! Edges are first dealt into buckets, each for a range of vertices so small that its part of the result fits
//! into a processor's cache, then each bucket is sorted by counting. Both steps run on all threads, and since
//! every piece of work writes to places of its own, without any lock. Besides the edges and the result this
//! takes 8 bytes per edge.

use std::mem::take;

use rayon::prelude::*;
use thiserror::Error;

use crate::csr::{Csr, VERTICES_MAX, split};
use crate::memory::{OutOfMemory, zeroed};
use crate::progress::FormatProgress;

/// Edges that can be looked at as often as needed, in pieces.
pub(crate) trait Edges: Sync {
    /// How many pieces there are. Enough for all threads, and not more than a few hundred.
    fn blocks(&self) -> usize;
    /// Shows the edges of one piece, each time the same.
    fn visit(&self, block: usize, show: impl FnMut(u32, u32));
}

/// What to do with edges on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaning {
    /// Add every edge's way back. A self loop is its own way back.
    pub both_directions: bool,
    /// Leave out edges from a vertex to itself.
    pub drop_self_loops: bool,
    /// Keep one of several edges between the same vertices.
    pub drop_duplicates: bool,
}

/// Why edges do not become a graph.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// Vertex numbers have 32 bits.
    #[error("{vertices} vertices are too many: at most {VERTICES_MAX} can be numbered")]
    TooManyVertices {
        /// How many were asked for.
        vertices: u64,
    },
    /// An edge ends nowhere.
    #[error("there is an edge from {from} to {to}, but there are only {vertices} vertices")]
    NoSuchVertex {
        /// Where the edge begins.
        from: u32,
        /// Where it ends.
        to: u32,
        /// How many vertices there are.
        vertices: u64,
    },
    /// The result does not fit.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// An edge in a bucket: where it begins in the upper half, where it ends in the lower.
type Packed = u64;

/// Sorts edges by where they begin, and by where they end.
pub(crate) fn build(
    edges: &impl Edges,
    vertices: u64,
    cleaning: Cleaning,
    progress: &dyn FormatProgress,
) -> Result<Csr, BuildError> {
    if vertices > VERTICES_MAX {
        return Err(BuildError::TooManyVertices { vertices });
    }
    let dealer = Dealer { edges, cleaning, vertices, buckets: Buckets::of(vertices as usize) };
    progress.begin("sorting edges", (2 * edges.blocks() + dealer.buckets.count) as u64);
    let counts = dealer.count(progress)?;
    let dealt = dealer.deal(&counts, progress)?;
    let sizes: Vec<usize> = (0..dealer.buckets.count)
        .map(|bucket| counts.iter().map(|of_block| of_block[bucket]).sum())
        .collect();
    drop(counts);
    Ok(gather(&dealer, dealt, &sizes, progress)?)
}

/// Ranges of vertices, all of the same power of two.
#[derive(Clone, Copy)]
struct Buckets {
    count: usize,
    shift: u32,
}

impl Buckets {
    /// Few enough that the pages written to at a time are known to the processor, with many vertices each.
    fn of(vertices: usize) -> Self {
        const MOST: usize = 512;
        const VERTICES_LEAST: usize = 1 << 9;
        let size = vertices.div_ceil(MOST).max(VERTICES_LEAST).next_power_of_two();
        Self { count: vertices.div_ceil(size), shift: size.trailing_zeros() }
    }

    fn of_vertex(self, vertex: u32) -> usize {
        (vertex >> self.shift) as usize
    }
}

struct Dealer<'a, E> {
    edges: &'a E,
    cleaning: Cleaning,
    vertices: u64,
    buckets: Buckets,
}

impl<E: Edges> Dealer<'_, E> {
    /// Shows each edge of a block as it goes into the graph.
    fn visit(&self, block: usize, mut show: impl FnMut(u32, u32)) {
        let Cleaning { both_directions, drop_self_loops, .. } = self.cleaning;
        self.edges.visit(block, |from, to| {
            if from == to && drop_self_loops {
                return;
            }
            show(from, to);
            if both_directions && from != to {
                show(to, from);
            }
        });
    }

    /// How many edges of each block go into each bucket.
    fn count(&self, progress: &dyn FormatProgress) -> Result<Vec<Vec<usize>>, BuildError> {
        let count = |block| {
            let mut counts = vec![0; self.buckets.count];
            let mut nowhere = None;
            self.visit(block, |from, to| {
                if u64::from(from.max(to)) < self.vertices {
                    counts[self.buckets.of_vertex(from)] += 1;
                } else {
                    nowhere = nowhere.or(Some((from, to)));
                }
            });
            progress.advance(1);
            match nowhere {
                None => Ok(counts),
                Some((from, to)) => Err(BuildError::NoSuchVertex { from, to, vertices: self.vertices }),
            }
        };
        let counted: Vec<_> = (0..self.edges.blocks()).into_par_iter().map(count).collect();
        // All are waited for, so that the edge named is the first one whatever the threads do.
        counted.into_iter().collect()
    }

    /// All edges, bucket after bucket.
    fn deal(&self, counts: &[Vec<usize>], progress: &dyn FormatProgress) -> Result<Vec<Packed>, OutOfMemory> {
        let total = counts.iter().flatten().sum();
        let mut dealt = zeroed::<Packed>(total)?;
        let mut places: Vec<Vec<&mut [Packed]>> =
            counts.iter().map(|_| Vec::with_capacity(self.buckets.count)).collect();
        let mut rest = dealt.as_mut_slice();
        for bucket in 0..self.buckets.count {
            for (block, of_block) in counts.iter().enumerate() {
                let (place, after) = take(&mut rest).split_at_mut(of_block[bucket]);
                places[block].push(place);
                rest = after;
            }
        }
        places.into_par_iter().enumerate().for_each(|(block, mut places)| {
            self.visit(block, |from, to| {
                let place = &mut places[self.buckets.of_vertex(from)];
                // There is a place for each edge that was shown when they were counted.
                if let Some((free, after)) = take(place).split_first_mut() {
                    *free = Packed::from(from) << 32 | Packed::from(to);
                    *place = after;
                }
            });
            progress.advance(1);
        });
        Ok(dealt)
    }
}

/// Makes rows of the buckets.
fn gather<E: Edges>(
    dealer: &Dealer<'_, E>,
    mut dealt: Vec<Packed>,
    sizes: &[usize],
    progress: &dyn FormatProgress,
) -> Result<Csr, OutOfMemory> {
    let ends = || {
        sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        })
    };
    let mut targets = zeroed::<u32>(dealt.len())?;
    let mut offsets = zeroed::<u64>(dealer.vertices as usize + 1)?;
    let width = 1 << dealer.buckets.shift;
    let work: Vec<_> = split(&mut dealt, ends()).into_iter().zip(split(&mut targets, ends())).collect();
    let rows = offsets[1..].par_chunks_mut(width);
    let kept: Vec<usize> = work
        .into_par_iter()
        .zip(rows)
        .map(|((edges, targets), row_ends)| {
            let kept = sort_bucket(edges, targets, row_ends, width, dealer.cleaning.drop_duplicates);
            progress.advance(1);
            kept
        })
        .collect();
    drop(dealt);
    let mut base = 0;
    let mut bases = Vec::with_capacity(kept.len());
    for (kept, end) in kept.iter().zip(ends().zip(sizes).map(|(end, size)| end - size)) {
        if base != end {
            targets.copy_within(end..end + kept, base);
        }
        bases.push(base as u64);
        base += kept;
    }
    targets.truncate(base);
    targets.shrink_to_fit();
    let rows = offsets[1..].par_chunks_mut(width).zip(bases);
    rows.for_each(|(row_ends, base)| row_ends.iter_mut().for_each(|end| *end += base));
    Ok(Csr::trusted(offsets, targets))
}

/// Sorts the edges of one bucket, whose vertices begin at a multiple of `width`. Leaves in `row_ends` where each vertex's neighbours end, counted from the
/// bucket's first, and returns how many there are.
fn sort_bucket(
    edges: &[Packed],
    targets: &mut [u32],
    row_ends: &mut [u64],
    width: usize,
    drop_duplicates: bool,
) -> usize {
    let row = |edge: Packed| (edge >> 32) as usize & (width - 1);
    let mut next = vec![0usize; row_ends.len()];
    for edge in edges {
        next[row(*edge)] += 1;
    }
    let mut begin = 0;
    for next in &mut next {
        begin += std::mem::replace(next, begin);
    }
    for edge in edges {
        let next = &mut next[row(*edge)];
        targets[*next] = *edge as u32;
        *next += 1;
    }
    let (mut begin, mut kept) = (0, 0);
    for (row_end, end) in row_ends.iter_mut().zip(next) {
        let list = &mut targets[begin..end];
        list.sort_unstable();
        let len = if drop_duplicates { dedup(list) } else { list.len() };
        targets.copy_within(begin..begin + len, kept);
        kept += len;
        *row_end = kept as u64;
        begin = end;
    }
    kept
}

/// Moves the first of each run of equal numbers to the front, and returns how many there are.
fn dedup(list: &mut [u32]) -> usize {
    let mut kept = 0;
    for at in 0..list.len() {
        if at == 0 || list[at] != list[kept - 1] {
            list[kept] = list[at];
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests;
