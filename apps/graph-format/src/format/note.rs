//! What is lost or changed on the way between a file and a graph.

use std::fmt;

use crate::graph::Graph;

/// Something that is not as it was, and that a user may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// Edges had weights.
    WeightsDropped,
    /// Lines had more than two columns.
    ColumnsDropped,
    /// Vertices have new numbers.
    Renumbered {
        /// How many vertices there are.
        vertices: u64,
        /// The largest number in the file.
        largest: u32,
    },
    /// The last vertices have no edges, and the format has no place for them.
    VerticesLost {
        /// How many.
        count: u64,
    },
}

impl Note {
    /// Vertices that an edge list does not mention and that cannot be inferred.
    pub(super) fn of_lost_vertices(graph: &Graph) -> Option<Self> {
        let rows = [graph.out(), graph.incoming()];
        let is_bare = |vertex: &usize| rows.iter().all(|rows| rows.neighbours(*vertex).is_empty());
        let count = (0..graph.vertices()).rev().take_while(is_bare).count() as u64;
        (count > 0).then_some(Self::VerticesLost { count })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WeightsDropped => write!(out, "the weights of edges were left out"),
            Self::ColumnsDropped => write!(out, "columns after the second were left out"),
            Self::Renumbered { vertices, largest } => write!(
                out,
                "the {vertices} vertices were given the numbers from 0 on, in the same order; the largest was {largest}"
            ),
            Self::VerticesLost { count } => {
                write!(out, "{count} vertices at the end have no edges, and this format no place for them")
            }
        }
    }
}
