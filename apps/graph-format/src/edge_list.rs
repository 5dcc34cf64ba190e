//! Edges in no particular order.

use rayon::prelude::*;

use crate::build::{BuildError, Cleaning, Edges, build};
use crate::csr::{BLOCKS, Csr};
use crate::progress::FormatProgress;

/// Edges, each from one vertex to another, in the pieces in which they were found.
#[derive(Debug, Default)]
pub struct EdgeList {
    pieces: Vec<Vec<(u32, u32)>>,
}

impl EdgeList {
    /// Takes some more edges. Pieces of thousands to millions of edges are best: they are the pieces of work.
    pub fn push(&mut self, piece: Vec<(u32, u32)>) {
        self.pieces.push(piece);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(Vec::is_empty)
    }

    /// The largest vertex number, if there is an edge.
    pub fn vertex_max(&self) -> Option<u32> {
        self.pieces.par_iter().flatten_iter().map(|(from, to)| *from.max(to)).max()
    }

    /// Sorts them into rows, each in ascending order.
    pub fn to_csr(
        &self,
        vertices: u64,
        cleaning: Cleaning,
        progress: &dyn FormatProgress,
    ) -> Result<Csr, BuildError> {
        build(self, vertices, cleaning, progress)
    }

    /// All of them, to be changed.
    pub(crate) fn pieces_mut(&mut self) -> &mut [Vec<(u32, u32)>] {
        &mut self.pieces
    }

    /// All of them.
    pub(crate) fn pieces(&self) -> &[Vec<(u32, u32)>] {
        &self.pieces
    }
}

impl FromIterator<(u32, u32)> for EdgeList {
    fn from_iter<I: IntoIterator<Item = (u32, u32)>>(edges: I) -> Self {
        const PIECE: usize = 1 << 20;
        let mut edges = edges.into_iter().peekable();
        let mut list = Self::default();
        while edges.peek().is_some() {
            list.push(edges.by_ref().take(PIECE).collect());
        }
        list
    }
}

impl Edges for EdgeList {
    fn blocks(&self) -> usize {
        self.pieces.len().min(BLOCKS)
    }

    fn visit(&self, block: usize, mut show: impl FnMut(u32, u32)) {
        let begin = |block: usize| self.pieces.len() * block / self.blocks();
        for (from, to) in self.pieces[begin(block)..begin(block + 1)].iter().flatten() {
            show(*from, *to);
        }
    }
}
