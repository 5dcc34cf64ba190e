//! Betweenness centrality from one source: for every vertex, over all others that the source reaches, the share of
//! the shortest paths between them that lead through it. Edges given several times count as several paths.
//!
//! **Algorithm.** Brandes': a breadth-first search that counts shortest paths, then back from the last level to the
//! first, every vertex summing up over its successors. Both ways a vertex pulls and adds in the order of its edges,
//! so that a sum has the same bits whichever thread computes it. A small frontier pushes where that cannot matter: while all
//! counts stay whole numbers below 2^53, every order of additions gives the same. On the way out each vertex that
//! has a successor gets a bit; on the way back the others, usually most, need no look at their edges.
//!
//! **Cost.** `O(n + m)` on the way back, and out but for levels that pull, which walk the edges of all vertices not
//! yet reached.
//!
//! **Access.** Upward sweeps, per level, through the edges of a small frontier, of unreached vertices, and on the
//! way back of the vertices with successors. Bits in the memory of the process say whether a neighbour counts
//! before its number of paths (at random) is read.

mod back;
mod out;

use crate::checksum::checksum;
use crate::view::GraphView;
use crate::{Arrays, RunContext, RunError};

/// The betweenness of every vertex, as seen from one source.
#[derive(Debug)]
pub struct Betweenness<A: Arrays> {
    source: u32,
    reached: usize,
    depth: u32,
    scores: A::Array<f64>,
}

/// What there is to say about betweenness.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BetweennessSummary {
    /// Where paths begin.
    pub source: u32,
    /// How many vertices they reach, with the source.
    pub reached: u64,
    /// How many edges the longest has.
    pub depth: u32,
    /// Up to five vertices of the highest betweenness, the highest first, of equals the smallest.
    pub top: Vec<(u32, f64)>,
    /// The bits of all scores.
    #[serde(serialize_with = "crate::checksum::as_text")]
    pub checksum: u64,
}

/// Vertices in the order of their levels, ascending within each.
struct Order<'a> {
    vertices: &'a [u32],
    /// Where each level begins, and where the last one ends.
    bounds: &'a [usize],
}

impl Order<'_> {
    fn level(&self, level: usize) -> &[u32] {
        &self.vertices[self.bounds[level]..self.bounds[level + 1]]
    }
}

/// Computes the share of shortest paths from one source that lead through each vertex.
pub fn run<A: Arrays>(
    graph: GraphView<'_>,
    source: u32,
    run: &RunContext<'_, A>,
) -> Result<Betweenness<A>, RunError> {
    graph.require(source)?;
    let mut paths = run.array::<f64>(graph.vertices(), "paths")?;
    let mut order = run.array::<u32>(graph.vertices(), "order")?;
    let mut scores = run.array::<f64>(graph.vertices(), "scores")?;
    let mut shares = run.array::<f64>(graph.vertices(), "shares")?;
    let crew = run.crew();
    let counted = out::count(graph, source, &crew, &mut paths, &mut order)?;
    let bounds = &counted.bounds;
    back::sum(
        graph,
        &crew,
        &Order { vertices: &order, bounds },
        back::BackArrays {
            parents: &counted.parents,
            paths: &paths,
            scores: &mut scores,
            shares: &mut shares,
        },
    );
    let (depth, reached) = (bounds.len() as u32 - 2, bounds[bounds.len() - 1]);
    Ok(Betweenness { source, reached, depth, scores })
}

impl<A: Arrays> Betweenness<A> {
    /// The score of every vertex; 0 for the source and for vertices it does not reach.
    #[must_use]
    pub fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Looks at all scores.
    #[must_use]
    pub fn summary(&self) -> BetweennessSummary {
        BetweennessSummary {
            source: self.source,
            reached: self.reached as u64,
            depth: self.depth,
            top: crate::top::top(&self.scores),
            checksum: checksum(&self.scores),
        }
    }
}
