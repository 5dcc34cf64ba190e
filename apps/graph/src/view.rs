//! Graphs as slices of offsets and neighbours.

use std::ops::Range;

use crate::blocks::Blocks;
use crate::prefetch::{Prefetch, Told};
use crate::{RunError, Workers};

/// Compressed sparse rows: the neighbours of vertex `v` are `targets[offsets[v]..offsets[v + 1]]`.
#[derive(Clone, Copy, Debug)]
pub struct CsrView<'a> {
    offsets: &'a [u64],
    targets: &'a [u32],
    told: Told<'a>,
}

/// Arrays that are no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// Even the empty graph has one offset.
    #[error("there are no offsets; a graph of n vertices has n + 1")]
    NoOffsets,
    /// Vertices are 32-bit numbers.
    #[error("{vertices} vertices are more than {} numbers can tell apart", u32::MAX)]
    TooManyVertices {
        /// How many offsets there are, less one.
        vertices: usize,
    },
    /// The first or the last offset does not fit the neighbours.
    #[error("the offsets go from {first} to {last}, but there are {targets} neighbours")]
    WrongEnds {
        /// The first offset.
        first: u64,
        /// The last offset.
        last: u64,
        /// How many neighbours there are.
        targets: usize,
    },
    /// The edges and the edges backwards are of two graphs.
    #[error("{vertices} vertices and {edges} edges forwards, but {back_vertices} and {back_edges} backwards")]
    NotTheSame {
        /// How many vertices have edges that leave.
        vertices: usize,
        /// How many edges leave.
        edges: usize,
        /// How many vertices have edges that arrive.
        back_vertices: usize,
        /// How many edges arrive.
        back_edges: usize,
    },
    /// An offset smaller than the one before, or beyond the last.
    #[error("the neighbours of vertex {vertex} begin at {begin} and end at {end}, of {targets}")]
    BadOffset {
        /// Whose neighbours.
        vertex: usize,
        /// Their first place.
        begin: u64,
        /// The place after their last.
        end: u64,
        /// How many places there are.
        targets: usize,
    },
    /// A neighbour that does not exist.
    #[error("vertex {vertex} has the neighbour {target}, of {vertices} vertices")]
    BadTarget {
        /// Whose neighbour.
        vertex: usize,
        /// Which.
        target: u32,
        /// How many vertices there are.
        vertices: usize,
    },
}

// Offsets index slices without a check of their own.
const _: () = assert!(usize::BITS == 64);

impl<'a> CsrView<'a> {
    /// Looks at the ends of the arrays, and at nothing between them.
    pub fn new(offsets: &'a [u64], targets: &'a [u32]) -> Result<Self, ViewError> {
        let (Some(&first), Some(&last)) = (offsets.first(), offsets.last()) else {
            return Err(ViewError::NoOffsets);
        };
        if offsets.len() - 1 > u32::MAX as usize {
            return Err(ViewError::TooManyVertices { vertices: offsets.len() - 1 });
        }
        if first != 0 || last != targets.len() as u64 {
            return Err(ViewError::WrongEnds { first, last, targets: targets.len() });
        }
        Ok(Self { offsets, targets, told: Told::default() })
    }

    /// The same arrays, of which `prefetch` is told what will be read next.
    #[must_use]
    pub fn with_prefetch(self, prefetch: &'a dyn Prefetch) -> Self {
        Self { told: Told(Some(prefetch)), ..self }
    }

    pub(crate) fn told(self) -> Told<'a> {
        self.told
    }

    /// Where the neighbours of a vertex lie among those of all.
    pub(crate) fn places(self, vertex: usize) -> Range<usize> {
        self.offsets[vertex] as usize..self.offsets[vertex + 1] as usize
    }

    /// How many vertices there are.
    #[must_use]
    pub fn vertices(self) -> usize {
        self.offsets.len() - 1
    }

    /// How many edges there are.
    #[must_use]
    pub fn edges(self) -> usize {
        self.targets.len()
    }

    /// How many neighbours a vertex has.
    #[must_use]
    pub fn degree(self, vertex: usize) -> u64 {
        self.offsets[vertex + 1] - self.offsets[vertex]
    }

    /// The neighbours of a vertex.
    #[must_use]
    pub fn neighbours(self, vertex: usize) -> &'a [u32] {
        let (begin, end) = (self.offsets[vertex], self.offsets[vertex + 1]);
        &self.targets[begin as usize..end as usize]
    }

    /// Where the neighbours of each vertex begin, and of the last one end.
    #[must_use]
    pub fn offsets(self) -> &'a [u64] {
        self.offsets
    }

    /// The neighbours of all vertices, one after the other.
    #[must_use]
    pub fn targets(self) -> &'a [u32] {
        self.targets
    }

    /// How many edges the vertices before this one have.
    pub(crate) fn offset(self, vertex: usize) -> u64 {
        self.offsets[vertex]
    }

    fn check_block(self, vertices: Range<usize>) -> Result<(), ViewError> {
        for vertex in vertices {
            let (begin, end) = (self.offsets[vertex], self.offsets[vertex + 1]);
            let Some(targets) = self.targets.get(begin as usize..end as usize) else {
                return Err(ViewError::BadOffset { vertex, begin, end, targets: self.targets.len() });
            };
            if let Some(&target) = targets.iter().find(|target| **target as usize >= self.vertices()) {
                return Err(ViewError::BadTarget { vertex, target, vertices: self.vertices() });
            }
        }
        Ok(())
    }
}

/// A graph, walked along its edges or against them.
#[derive(Clone, Copy, Debug)]
pub struct GraphView<'a> {
    out: CsrView<'a>,
    incoming: CsrView<'a>,
    is_symmetric: bool,
}

impl<'a> GraphView<'a> {
    /// A graph in which every edge is there in both directions.
    #[must_use]
    pub fn symmetric(edges: CsrView<'a>) -> Self {
        Self { out: edges, incoming: edges, is_symmetric: true }
    }

    /// A graph whose edges have a direction: the same edges, by the vertex they leave and by the one they reach.
    pub fn directed(out: CsrView<'a>, incoming: CsrView<'a>) -> Result<Self, ViewError> {
        if out.vertices() != incoming.vertices() || out.edges() != incoming.edges() {
            return Err(ViewError::NotTheSame {
                vertices: out.vertices(),
                edges: out.edges(),
                back_vertices: incoming.vertices(),
                back_edges: incoming.edges(),
            });
        }
        Ok(Self { out, incoming, is_symmetric: false })
    }

    /// The edges by the vertex that they leave.
    #[must_use]
    pub fn out(self) -> CsrView<'a> {
        self.out
    }

    /// The edges by the vertex that they reach.
    #[must_use]
    pub fn incoming(self) -> CsrView<'a> {
        self.incoming
    }

    /// Whether every edge is there in both directions.
    #[must_use]
    pub fn is_symmetric(self) -> bool {
        self.is_symmetric
    }

    /// How many vertices there are.
    #[must_use]
    pub fn vertices(self) -> usize {
        self.out.vertices()
    }

    /// How many edges there are; one in both directions counts twice.
    #[must_use]
    pub fn edges(self) -> usize {
        self.out.edges()
    }

    /// The first vertex that an edge leaves.
    #[must_use]
    pub fn first_with_edges(self) -> Option<u32> {
        // Offsets begin with 0, and stay 0 until a vertex has edges.
        let first = self.out.offsets.iter().position(|offset| *offset > 0)?;
        u32::try_from(first - 1).ok()
    }

    pub(crate) fn require(self, vertex: u32) -> Result<(), RunError> {
        match self.vertices() {
            vertices if (vertex as usize) < vertices => Ok(()),
            vertices => Err(RunError::NoSuchVertex { vertex, vertices }),
        }
    }

    /// Walks all arrays once, to find what would make an application panic. It does not find out whether the
    /// two directions are of the same edges: results would be wrong then, and nothing else.
    pub fn check(self, workers: &Workers) -> Result<(), ViewError> {
        let mut parts = vec![self.out];
        if !self.is_symmetric {
            parts.push(self.incoming);
        }
        for csr in parts {
            let blocks = Blocks::by_vertices(csr.vertices());
            let first_error = |earliest: &mut Option<(usize, ViewError)>, block| {
                if earliest.is_none()
                    && let Err(error) = csr.check_block(blocks.range(block))
                {
                    *earliest = Some((block, error));
                }
            };
            let errors = workers.gather(blocks.len(), || None, first_error);
            if let Some((_, error)) = errors.into_iter().flatten().min_by_key(|(block, _)| *block) {
                return Err(error);
            }
        }
        Ok(())
    }
}
