//! A graph: where its edges lead, and where they come from.

use thiserror::Error;

use crate::build::{BuildError, Cleaning, Edges, build};
use crate::csr::{BLOCKS, Csr};
use crate::memory::OutOfMemory;
use crate::progress::FormatProgress;

/// A graph whose neighbour lists are in ascending order.
///
/// ```
/// use outboard_graph_format::{Cleaning, EdgeList, Graph};
///
/// let edges: EdgeList = [(0, 1), (0, 2), (2, 1)].into_iter().collect();
/// let graph = Graph::directed(edges.to_csr(3, Cleaning::default(), &())?, &())?;
/// assert_eq!(graph.out().neighbours(0), [1, 2]);
/// assert_eq!(graph.incoming().neighbours(1), [0, 2]);
/// assert!(!graph.is_symmetric());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    out: Csr,
    incoming: Option<Csr>,
}

/// Why rows are no graph.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// Both directions have the same vertices.
    #[error("edges lead out of {out} vertices but into {incoming}")]
    Vertices {
        /// How many vertices the one has.
        out: u64,
        /// How many the other.
        incoming: u64,
    },
    /// Each edge that leads out leads in somewhere.
    #[error("{out} edges lead out of vertices but {incoming} into them")]
    Edges {
        /// How many edges the one has.
        out: u64,
        /// How many the other.
        incoming: u64,
    },
    /// Both directions have the same edges.
    #[error("the incoming edges are not the outgoing ones turned round")]
    NotTurned,
    /// It is said to be symmetric and is not.
    #[error("the graph is called symmetric, but not every edge has its way back")]
    NotSymmetric,
}

impl Graph {
    /// Takes outgoing edges and incoming ones; no incoming ones mean that the graph is symmetric. Sorts neighbours
    /// that are not. That the two belong together is found out by a checksum, which errors cannot outwit but
    /// malice could: the worst it gets is wrong results.
    pub fn new(mut out: Csr, mut incoming: Option<Csr>) -> Result<Self, GraphError> {
        let forth = out.fingerprint(false);
        match &incoming {
            None if forth != out.fingerprint(true) => return Err(GraphError::NotSymmetric),
            None => {}
            Some(incoming) => {
                let [vertices, edges] =
                    [Csr::vertices, Csr::edges].map(|count| (count(&out) as u64, count(incoming) as u64));
                if vertices.0 != vertices.1 {
                    return Err(GraphError::Vertices { out: vertices.0, incoming: vertices.1 });
                }
                if edges.0 != edges.1 {
                    return Err(GraphError::Edges { out: edges.0, incoming: edges.1 });
                }
                if forth != incoming.fingerprint(true) {
                    return Err(GraphError::NotTurned);
                }
            }
        }
        for rows in [Some(&mut out), incoming.as_mut()].into_iter().flatten() {
            if !rows.is_sorted() {
                rows.sort();
            }
        }
        // A graph may have all its edges in both directions without a note that says so.
        let incoming = incoming.filter(|incoming| *incoming != out);
        Ok(Self { out, incoming })
    }

    /// Takes outgoing edges, and finds the incoming ones. A graph in which every edge has its way back is found to
    /// be symmetric.
    pub fn directed(mut out: Csr, progress: &dyn FormatProgress) -> Result<Self, OutOfMemory> {
        if !out.is_sorted() {
            out.sort();
        }
        let incoming = transpose(&out, progress)?;
        let incoming = (incoming != out).then_some(incoming);
        Ok(Self { out, incoming })
    }

    /// Takes edges that were made together with their ways back.
    pub(crate) fn symmetric(out: Csr) -> Self {
        debug_assert_eq!(out.fingerprint(false), out.fingerprint(true));
        Self { out, incoming: None }
    }

    /// The graph with every edge's way back. An edge that has its way back already does not get another.
    pub fn symmetrised(self) -> Result<Self, OutOfMemory> {
        let out = match &self.incoming {
            None => self.out,
            Some(incoming) => self.out.union(incoming)?,
        };
        Ok(Self { out, incoming: None })
    }

    /// The graph without what the cleaning drops.
    pub fn cleaned(self, cleaning: Cleaning, progress: &dyn FormatProgress) -> Result<Self, OutOfMemory> {
        let graph = if cleaning.both_directions { self.symmetrised()? } else { self };
        let cleaning = Cleaning { both_directions: false, ..cleaning };
        if cleaning == Cleaning::default() {
            return Ok(graph);
        }
        let clean = |rows: &Csr| rebuild(&Rows::new(rows, false), rows, cleaning, progress);
        let out = clean(&graph.out)?;
        let incoming = graph.incoming.as_ref().map(clean).transpose()?;
        // Without duplicates the ways back may be complete.
        let incoming = incoming.filter(|incoming| *incoming != out);
        Ok(Self { out, incoming })
    }

    /// Where edges lead.
    pub fn out(&self) -> &Csr {
        &self.out
    }

    /// Where edges come from.
    pub fn incoming(&self) -> &Csr {
        self.incoming.as_ref().unwrap_or(&self.out)
    }

    /// Whether every edge has its way back.
    pub fn is_symmetric(&self) -> bool {
        self.incoming.is_none()
    }

    /// How many vertices.
    pub fn vertices(&self) -> usize {
        self.out.vertices()
    }

    /// How many edges; in a symmetric graph each direction counts.
    pub fn edges(&self) -> usize {
        self.out.edges()
    }

    /// Outgoing edges, and incoming ones unless they are the same.
    pub fn into_parts(self) -> (Csr, Option<Csr>) {
        (self.out, self.incoming)
    }
}

/// The edges the other way round.
fn transpose(rows: &Csr, progress: &dyn FormatProgress) -> Result<Csr, OutOfMemory> {
    rebuild(&Rows::new(rows, true), rows, Cleaning::default(), progress)
}

fn rebuild(
    edges: &Rows<'_>,
    rows: &Csr,
    cleaning: Cleaning,
    progress: &dyn FormatProgress,
) -> Result<Csr, OutOfMemory> {
    match build(edges, rows.vertices() as u64, cleaning, progress) {
        Ok(rows) => Ok(rows),
        Err(BuildError::Memory(error)) => Err(error),
        Err(other) => unreachable!("rows that were checked have only edges between their vertices: {other}"),
    }
}

/// Rows as edges.
struct Rows<'a> {
    rows: &'a Csr,
    blocks: Vec<std::ops::Range<usize>>,
    turned: bool,
}

impl<'a> Rows<'a> {
    fn new(rows: &'a Csr, turned: bool) -> Self {
        Self { rows, blocks: rows.blocks(BLOCKS), turned }
    }
}

impl Edges for Rows<'_> {
    fn blocks(&self) -> usize {
        self.blocks.len()
    }

    fn visit(&self, block: usize, mut show: impl FnMut(u32, u32)) {
        for vertex in self.blocks[block].clone() {
            let vertex_number = vertex as u32;
            for &target in self.rows.neighbours(vertex) {
                match self.turned {
                    true => show(target, vertex_number),
                    false => show(vertex_number, target),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
