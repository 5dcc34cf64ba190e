//! PageRank: how likely a random walk is at a vertex, if now and then it jumps to any vertex.
//!
//! **Algorithm.** Every vertex pulls what its incoming neighbours contribute, their rank divided by the number of
//! their edges, a fixed number of times or until the ranks hardly change. A vertex without outgoing edges spreads
//! its rank over all vertices, so that ranks always add up to 1.
//!
//! **Numbers.** Contributions are kept as `f32` and added up as `f64`, in four interleaved sums of fixed order.
//! Each contribution is then right within 6e-8 of its value and no addition loses more, so that a rank is right
//! within about 1e-6 of its value however many neighbours there are; `f64` throughout would double what is read
//! at random, which is what the time goes into. A rank is not kept beside its contribution, because it is the
//! contribution times the number of edges: two numbers of 4 bytes per vertex are all the state there is.
//!
//! **Cost.** `O(iterations × (n + m))`.
//!
//! **Access.** One upward sweep through offsets and edges per iteration, and one through the outgoing offsets if
//! the graph is directed. Old contributions are read at random, new ones written in the sweep.

use std::ops::Range;

use crate::blocks::Blocks;
use crate::checksum::checksum;
use crate::crew::Crew;
use crate::prefetch::Ahead;
use crate::shared::Shared;
use crate::view::GraphView;
use crate::{Arrays, RunContext, RunError};

/// How to compute ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PagerankOptions {
    /// How likely the walk follows an edge, instead of jumping: from 0 to below 1, default 0.85.
    pub damping: f64,
    /// The most iterations, default 10.
    pub iterations: u32,
    /// Ends earlier when all ranks together change by no more than this, default 0: never. Below about 1e-6 it
    /// is noise that decides.
    pub tolerance: f64,
}

impl Default for PagerankOptions {
    fn default() -> Self {
        Self { damping: 0.85, iterations: 10, tolerance: 0.0 }
    }
}

/// The rank of every vertex.
#[derive(Debug)]
pub struct Ranks<A: Arrays> {
    ranks: A::Array<f32>,
    iterations: u32,
    change: f64,
}

/// What there is to say about ranks.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PagerankSummary {
    /// How many iterations were done.
    pub iterations: u32,
    /// By how much all ranks together changed in the last one.
    pub change: f64,
    /// All ranks together: 1, but for rounding.
    pub sum: f64,
    /// Up to five vertices of the highest ranks, the highest first, of equals the smallest.
    pub top: Vec<(u32, f32)>,
    /// The bits of all ranks.
    #[serde(serialize_with = "crate::checksum::as_text")]
    pub checksum: u64,
}

/// Computes ranks.
pub fn run<A: Arrays>(
    graph: GraphView<'_>,
    options: PagerankOptions,
    run: &RunContext<'_, A>,
) -> Result<Ranks<A>, RunError> {
    if !(0.0..1.0).contains(&options.damping) {
        let (name, range) = ("damping", "from 0 to below 1");
        return Err(RunError::BadOption { name, value: options.damping, range });
    }
    let mut old = run.array::<f32>(graph.vertices(), "contributions")?;
    let mut new = run.array::<f32>(graph.vertices(), "new contributions")?;
    let walk = Walk { graph, options, crew: run.crew(), blocks: Blocks::by_edges(graph.incoming()) };
    let mut totals = walk.begin(Shared::new(&mut old));
    let mut iterations = 0;
    while iterations < options.iterations && totals.change > options.tolerance {
        iterations += 1;
        walk.crew.iteration(iterations, options.iterations, graph.edges());
        totals = walk.iterate(&old, Shared::new(&mut new), totals.dangling);
        std::mem::swap(&mut old, &mut new);
    }
    walk.end(Shared::new(&mut old));
    Ok(Ranks { ranks: old, iterations, change: totals.change })
}

struct Walk<'a> {
    graph: GraphView<'a>,
    options: PagerankOptions,
    crew: Crew<'a>,
    blocks: Blocks,
}

/// Sums over vertices.
#[derive(Clone, Copy, Default)]
struct Totals {
    /// The ranks of those without outgoing edges.
    dangling: f64,
    /// By how much ranks changed.
    change: f64,
    /// How many edges were walked.
    walked: u64,
}

impl Walk<'_> {
    /// Every vertex has the same rank.
    fn begin(&self, contributions: Shared<'_, f32>) -> Totals {
        let rank = 1.0 / self.graph.vertices() as f64;
        let totals = self.sum(Ahead::none(), |vertices| {
            let mut totals = Totals::default();
            for vertex in vertices {
                let degree = self.graph.out().degree(vertex);
                contributions.set(vertex, contribution(rank, degree));
                totals.dangling += if degree == 0 { rank } else { 0.0 };
            }
            totals
        });
        Totals { change: f64::INFINITY, ..totals }
    }

    fn iterate(&self, old: &[f32], new: Shared<'_, f32>, dangling: f64) -> Totals {
        let damping = self.options.damping;
        let jump = (1.0 - damping + damping * dangling) / self.graph.vertices() as f64;
        let ahead = Ahead::of_blocks(self.graph.incoming(), &self.blocks);
        self.sum(ahead, |vertices| {
            let mut totals = Totals::default();
            let mut walked = 0;
            for vertex in vertices {
                let neighbours = self.graph.incoming().neighbours(vertex);
                let rank = jump + damping * sum_of(old, neighbours);
                let degree = self.graph.out().degree(vertex);
                totals.dangling += if degree == 0 { rank } else { 0.0 };
                totals.change += (rank - rank_of(old[vertex], degree)).abs();
                new.set(vertex, contribution(rank, degree));
                walked += neighbours.len() as u64;
            }
            Totals { walked, ..totals }
        })
    }

    /// Turns contributions into ranks.
    fn end(&self, contributions: Shared<'_, f32>) {
        self.crew.workers.each(self.blocks.len(), |block| {
            for vertex in self.blocks.range(block) {
                let rank = rank_of(contributions.get(vertex), self.graph.out().degree(vertex));
                contributions.set(vertex, rank as f32);
            }
        });
    }

    /// Adds up what blocks come to, in their order: additions of floating-point numbers in another order would
    /// be another result.
    fn sum(&self, ahead: Ahead<'_>, of_block: impl Fn(Range<usize>) -> Totals + Sync) -> Totals {
        let mut dangling = vec![0.0f64; self.blocks.len()];
        let mut change = dangling.clone();
        let (dangling_of, change_of) = (Shared::new(&mut dangling), Shared::new(&mut change));
        let add = |(): &mut (), block| {
            let totals = of_block(self.blocks.range(block));
            dangling_of.set(block, totals.dangling);
            change_of.set(block, totals.change);
            totals.walked
        };
        self.crew.sweep((self.blocks.len(), ahead), || (), add);
        Totals { dangling: dangling.iter().sum(), change: change.iter().sum(), walked: 0 }
    }
}

/// What a vertex gives to each of its neighbours. Without any, it keeps its rank in this place.
fn contribution(rank: f64, degree: u64) -> f32 {
    (rank / degree.max(1) as f64) as f32
}

fn rank_of(contribution: f32, degree: u64) -> f64 {
    f64::from(contribution) * degree.max(1) as f64
}

/// Four sums, because one would wait for the previous addition to end before every other.
fn sum_of(contributions: &[f32], neighbours: &[u32]) -> f64 {
    let contribution_of = |neighbour: u32| f64::from(contributions[neighbour as usize]);
    let mut sums = [0.0; 4];
    let (fours, rest) = neighbours.as_chunks::<4>();
    for four in fours {
        for (sum, neighbour) in sums.iter_mut().zip(four) {
            *sum += contribution_of(*neighbour);
        }
    }
    for (sum, neighbour) in sums.iter_mut().zip(rest) {
        *sum += contribution_of(*neighbour);
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

impl<A: Arrays> Ranks<A> {
    /// The rank of every vertex.
    #[must_use]
    pub fn ranks(&self) -> &[f32] {
        &self.ranks
    }

    /// Looks at all ranks.
    #[must_use]
    pub fn summary(&self) -> PagerankSummary {
        PagerankSummary {
            iterations: self.iterations,
            change: self.change,
            sum: self.ranks.iter().copied().map(f64::from).sum(),
            top: crate::top::top(&self.ranks),
            checksum: checksum(&self.ranks),
        }
    }
}
