//! The vertices whose neighbours are looked at next, and from which end of the edges.

use std::ops::Range;

use crate::bitmap::{Bitmap, WORD};
use crate::prefetch::Ahead;
use crate::shared::Shared;
use crate::view::{CsrView, GraphView};
use crate::workers::Workers;

/// The vertices of one level, as the level before left them.
#[derive(Debug)]
pub(crate) enum Frontier {
    /// A few, in ascending order.
    Few(Vec<u32>),
    /// Many.
    Many(Bitmap),
}

/// From which end of its edges a level is done.
#[derive(Debug)]
pub(crate) enum Direction {
    /// Every frontier vertex tells its neighbours.
    Push(Sparse),
    /// Every vertex that still wants to hear asks its neighbours whether they are in the frontier.
    Pull(Bitmap),
}

/// With more than one in so many of the graph's vertices or edges at the frontier, asking is cheaper than
/// telling: it needs no atomic updates and reads in one sequence. In far memory, a frontier of that size touches
/// nearly every chunk either way.
const PULL_ONE_IN: usize = 20;

impl Frontier {
    /// Whether nothing is left to do.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Few(vertices) => vertices.is_empty(),
            Self::Many(_) => false,
        }
    }

    /// Writes its vertices into an array, in ascending order. Returns how many they are.
    pub(crate) fn write(&self, array: &mut [u32]) -> usize {
        match self {
            Self::Few(vertices) => {
                array[..vertices.len()].copy_from_slice(vertices);
                vertices.len()
            }
            Self::Many(bitmap) => {
                array.iter_mut().zip(bitmap.iter()).map(|(place, vertex)| *place = vertex).count()
            }
        }
    }

    /// A frontier that came out of a pull.
    pub(crate) fn of_bitmap(bitmap: Bitmap, count: usize) -> Self {
        if count * PULL_ONE_IN > bitmap.len() { Self::Many(bitmap) } else { Self::Few(bitmap.list()) }
    }

    /// A frontier that came out of a push: what each worker found, in any order.
    pub(crate) fn of_finds(finds: Vec<Vec<u32>>, vertices: usize) -> Self {
        Self::Few(in_order(finds, vertices))
    }

    /// Chooses the direction, where so many vertices are left that may still be reached. It depends on the graph and the
    /// search alone.
    pub(crate) fn direct(self, graph: GraphView<'_>, workers: &Workers, left: usize) -> Direction {
        match self {
            Self::Many(bitmap) => Direction::Pull(bitmap),
            Self::Few(vertices)
                if vertices.len() > left || vertices.len() * PULL_ONE_IN > graph.vertices() =>
            {
                Direction::Pull(Bitmap::of(&vertices, graph.vertices()))
            }
            Self::Few(vertices) => {
                let sparse = Sparse::measure(vertices, graph.out(), workers);
                if sparse.edges * PULL_ONE_IN as u64 > graph.edges() as u64 {
                    Direction::Pull(Bitmap::of(&sparse.vertices, graph.vertices()))
                } else {
                    Direction::Push(sparse)
                }
            }
        }
    }
}

/// Ascending order lets a push move through far arrays in one sweep.
fn in_order(finds: Vec<Vec<u32>>, vertices: usize) -> Vec<u32> {
    let mut all = finds.concat();
    // Above this many, a sweep over a bitmap costs less than sorting.
    if all.len() > vertices / (8 * WORD) {
        return Bitmap::of(&all, vertices).list();
    }
    all.sort_unstable();
    all
}

/// A few vertices whose edges are walked, cut into pieces of about equal work; the edges of one vertex may be
/// spread over several.
#[derive(Debug)]
pub(crate) struct Sparse {
    vertices: Vec<u32>,
    /// How much work the vertices up to and including each one are.
    ends: Vec<u64>,
    edges: u64,
}

/// In units of edges. Small enough that several workers wait for far memory at once.
const PIECE: u64 = 1 << 12;
/// What a vertex costs besides its edges: a jump to another place of two arrays.
const JUMP: u64 = 64;
/// So many vertices' offsets are read in one piece of work.
const MEASURED: usize = 256;

impl Sparse {
    /// Reads the offsets of these vertices.
    pub(crate) fn measure(vertices: Vec<u32>, csr: CsrView<'_>, workers: &Workers) -> Self {
        let mut ends = vec![0; vertices.len()];
        let degrees = Shared::new(&mut ends);
        workers.each(vertices.len().div_ceil(MEASURED), |piece| {
            let begin = piece * MEASURED;
            for (index, &vertex) in vertices.iter().enumerate().skip(begin).take(MEASURED) {
                degrees.set(index, csr.degree(vertex as usize));
            }
        });
        let (mut edges, mut work) = (0, 0);
        for end in &mut ends {
            edges += *end;
            work += *end + JUMP;
            *end = work;
        }
        Self { vertices, ends, edges }
    }

    /// The vertices, in ascending order.
    pub(crate) fn vertices(&self) -> &[u32] {
        &self.vertices
    }

    /// The vertices, with how many edges each has.
    pub(crate) fn degrees(&self) -> impl Iterator<Item = (u32, u64)> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        let degrees = self.ends.iter().zip(begins).map(|(end, begin)| end - begin - JUMP);
        self.vertices.iter().copied().zip(degrees)
    }

    /// How many pieces of work there are.
    pub(crate) fn pieces(&self) -> usize {
        self.ends.last().map_or(0, |work| work.div_ceil(PIECE) as usize)
    }

    /// What is told of pieces before they are begun.
    pub(crate) fn ahead<'a>(&'a self, csr: CsrView<'a>) -> Ahead<'a> {
        Ahead::of(csr, self.pieces(), move |pieces| {
            self.reach(pieces).iter().map(move |vertex| csr.places(*vertex as usize))
        })
    }

    /// The vertices that have edges in these pieces.
    fn reach(&self, pieces: Range<usize>) -> &[u32] {
        let first = self.ends.partition_point(|end| *end <= pieces.start as u64 * PIECE);
        let last = self.ends.partition_point(|end| *end < pieces.end as u64 * PIECE);
        &self.vertices[first..self.vertices.len().min(last + 1)]
    }

    /// Walks the edges of one piece: each vertex with its neighbours, or with some of them. Returns how many.
    pub(crate) fn walk(&self, piece: usize, csr: CsrView<'_>, mut visit: impl FnMut(u32, &[u32])) -> u64 {
        let (from, to) = (piece as u64 * PIECE, (piece as u64 + 1) * PIECE);
        let first = self.ends.partition_point(|end| *end <= from);
        let mut walked = 0;
        for (index, &vertex) in self.vertices.iter().enumerate().skip(first) {
            let begin = index.checked_sub(1).map_or(0, |before| self.ends[before]);
            if begin >= to {
                break;
            }
            let degree = self.ends[index] - begin - JUMP;
            let edge_at = |place: u64| place.saturating_sub(begin + JUMP).min(degree) as usize;
            let (low, high) = (edge_at(from), edge_at(to));
            if low < high {
                visit(vertex, &csr.neighbours(vertex as usize)[low..high]);
                walked += (high - low) as u64;
            }
        }
        walked
    }

    /// The vertices of one piece, where the edges of one vertex must stay together: those that begin in it.
    pub(crate) fn whole(&self, piece: usize) -> &[u32] {
        let at = |place: u64| match place {
            0 => 0,
            _ => self.vertices.len().min(self.ends.partition_point(|end| *end < place) + 1),
        };
        &self.vertices[at(piece as u64 * PIECE)..at((piece as u64 + 1) * PIECE)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_sparse_frontier_have_every_edge_once() {
        let degrees = [0, 3, 10_000, 0, 1, 4096, 4095, 64, 0];
        let mut offsets = vec![0u64];
        offsets.extend(degrees.iter().scan(0, |sum, degree| {
            *sum += degree;
            Some(*sum)
        }));
        let targets = Vec::from_iter(0..degrees.iter().sum::<u64>() as u32);
        let csr = CsrView::new(&offsets, &targets).unwrap();
        let workers = Workers::new(2).unwrap();
        let sparse = Sparse::measure(vec![1, 2, 3, 5, 6, 8], csr, &workers);
        let mut seen = Vec::new();
        let walked: u64 = (0..sparse.pieces())
            .map(|piece| {
                sparse.walk(piece, csr, |vertex, neighbours| {
                    let all = csr.neighbours(vertex as usize);
                    assert!(neighbours.iter().all(|target| all.contains(target)));
                    seen.extend_from_slice(neighbours);
                })
            })
            .sum();
        let expected = [1, 2, 3, 5, 6, 8].map(|vertex| csr.neighbours(vertex)).concat();
        assert_eq!(
            (seen, walked, sparse.edges),
            (expected.clone(), expected.len() as u64, expected.len() as u64)
        );
    }

    #[test]
    fn finds_are_put_in_order_by_sorting_or_by_sweeping() {
        for vertices in [100, 100_000] {
            let finds = vec![vec![40, 7], vec![], vec![0, 99, 8]];
            assert_eq!(in_order(finds, vertices), [0, 7, 8, 40, 99]);
        }
    }
}
