//! Cuts the vertices into pieces of work.

use std::ops::Range;

use crate::bitmap::WORD;
use crate::view::CsrView;

/// Consecutive ranges of vertices that cover a graph. Each begins at a word of a bitmap, so that no two workers
/// write the same word. The cut depends on the graph alone: sums over blocks, taken in order, are the same
/// whichever thread worked at which block.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Where each block begins, and where the last one ends.
    bounds: Vec<usize>,
}

/// Edges of 64 KiB. Taking a block still costs nothing, the load is balanced, and a chunk of far memory is the work
/// of one block and its neighbour: workers at neighbouring blocks move through it in one sequence, also from the
/// last block to the first.
const BLOCK_WEIGHT: u64 = 1 << 14;
/// A vertex costs about as much as so many of its edges, for its offset and state.
const VERTEX_WEIGHT: u64 = 4;
/// For passes that look at a few edges of some vertices only.
const BLOCK_VERTICES: usize = 1 << 9;

impl Blocks {
    /// Blocks of about equal work for a pass over all edges. Reads some of the offsets.
    pub(crate) fn by_edges(csr: CsrView<'_>) -> Self {
        let vertices = csr.vertices();
        let weight = |vertex: usize| csr.offset(vertex) + VERTEX_WEIGHT * vertex as u64;
        let mut bounds = vec![0];
        let mut begin = 0;
        while begin < vertices {
            let goal = weight(begin) + BLOCK_WEIGHT;
            // Strides that double from the begin: the search stays close to what the block itself will touch.
            let (mut low, mut stride) = (begin, WORD);
            while low + stride < vertices && weight(low + stride) < goal {
                low += stride;
                stride *= 2;
            }
            let high = (low + stride).min(vertices);
            begin = first_at_goal(low, high, |vertex| weight(vertex) >= goal);
            bounds.push(begin);
        }
        Self { bounds }
    }

    /// Blocks of equal numbers of vertices. Reads nothing.
    pub(crate) fn by_vertices(vertices: usize) -> Self {
        let mut bounds = Vec::from_iter((0..vertices).step_by(BLOCK_VERTICES));
        bounds.push(vertices);
        Self { bounds }
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The vertices of a block.
    pub(crate) fn range(&self, block: usize) -> Range<usize> {
        self.bounds[block]..self.bounds[block + 1]
    }

    /// The words of a bitmap that hold the vertices of a block.
    pub(crate) fn words(&self, block: usize) -> Range<usize> {
        self.bounds[block] / WORD..self.bounds[block + 1].div_ceil(WORD)
    }
}

/// The first multiple of a word above `low` that is at the goal; `high` if none below it is.
fn first_at_goal(low: usize, high: usize, is_at_goal: impl Fn(usize) -> bool) -> usize {
    let (mut below, mut at) = (low / WORD, high.div_ceil(WORD));
    while at - below > 1 {
        let middle = below.midpoint(at);
        if is_at_goal(middle * WORD) {
            at = middle;
        } else {
            below = middle;
        }
    }
    (at * WORD).min(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(blocks: &Blocks, vertices: usize) {
        let mut expected = 0;
        for block in 0..blocks.len() {
            let range = blocks.range(block);
            assert_eq!(range.start, expected);
            assert!(!range.is_empty() && range.start.is_multiple_of(WORD));
            assert_eq!(blocks.words(block), range.start / WORD..range.end.div_ceil(WORD));
            expected = range.end;
        }
        assert_eq!(expected, vertices);
    }

    #[test]
    fn blocks_cover_the_vertices_in_order_and_weigh_about_the_same() {
        for (vertices, degree) in
            [(0, 0), (1, 5), (64, 1), (65, 3000), (5_000, 100), (200_001, 7), (300_000, 0)]
        {
            let offsets = Vec::from_iter((0..=vertices as u64).map(|vertex| vertex * degree));
            let targets = vec![0; vertices * degree as usize];
            let csr = CsrView::new(&offsets, &targets).unwrap();
            let blocks = Blocks::by_edges(csr);
            check(&blocks, vertices);
            let word = WORD as u64 * (degree + VERTEX_WEIGHT);
            for block in 0..blocks.len() {
                let range = blocks.range(block);
                let weight = range.len() as u64 * (degree + VERTEX_WEIGHT);
                let is_last = range.end == vertices;
                assert!(weight < BLOCK_WEIGHT + word && (is_last || weight >= BLOCK_WEIGHT), "{range:?}");
            }
            check(&Blocks::by_vertices(vertices), vertices);
        }
    }

    #[test]
    fn a_vertex_with_most_of_the_edges_has_a_block_for_its_word() {
        let offsets = Vec::from_iter((0..=1000u64).map(|vertex| if vertex > 500 { 1_000_000 } else { 0 }));
        let targets = vec![0; 1_000_000];
        let blocks = Blocks::by_edges(CsrView::new(&offsets, &targets).unwrap());
        check(&blocks, 1000);
        assert!((0..blocks.len()).any(|block| blocks.range(block).end == 512));
    }
}
