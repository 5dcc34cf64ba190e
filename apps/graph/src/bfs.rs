//! Breadth-first search: how many edges it takes from one vertex to every other.
//!
//! **Algorithm.** Level by level, in the cheaper direction: while the frontier is small its vertices push along their
//! edges, while it is large every vertex not yet reached pulls, and stops at the first neighbour that is in the
//! frontier. The result is levels, not parents: a level is the same whichever thread finds it first, whereas the smallest
//! parent would cost pushes an atomic minimum per edge and pulls their early stop.
//!
//! **Cost.** At most `O(n + m)` for all pushes and, in graphs whose large levels are few, far fewer than `m` edges
//! for the pulls; in the worst case `O(levels × m)`.
//!
//! **Access.** A push sweeps upwards through the offsets and edges of the frontier alone. A pull sweeps upwards
//! through the offsets and first edges of unreached vertices; bits in the memory of the process say who that is
//! before anything else is touched, and a vertex found to have no edges never is touched again. Levels are written
//! once, and never read.

use crate::bitmap::{Bitmap, WORD, ones};
use crate::blocks::Blocks;
use crate::checksum::checksum;
use crate::crew::Crew;
use crate::frontier::{Direction, Frontier, Sparse};
use crate::prefetch::Ahead;
use crate::shared::Shared;
use crate::view::GraphView;
use crate::{Arrays, RunContext, RunError};

/// The number of edges from the source to every vertex.
#[derive(Debug)]
pub struct Levels<A: Arrays> {
    source: u32,
    /// One more than the level; 0 where the search did not come.
    levels: A::Array<u32>,
}

/// What there is to say about a search.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct BfsSummary {
    /// Where it began.
    pub source: u32,
    /// How many vertices it reached, with the source.
    pub reached: u64,
    /// The largest level.
    pub depth: u32,
    /// The bits of all levels.
    #[serde(serialize_with = "crate::checksum::as_text")]
    pub checksum: u64,
}

/// With fewer unreached vertices than one in so many, a pull tells of their neighbours alone, and not of all in between.
const SPARSE_ONE_IN: usize = 64;

/// Searches from one vertex, along the edges.
pub fn run<A: Arrays>(
    graph: GraphView<'_>,
    source: u32,
    run: &RunContext<'_, A>,
) -> Result<Levels<A>, RunError> {
    graph.require(source)?;
    let mut levels = run.array::<u32>(graph.vertices(), "levels")?;
    let search = Search {
        graph,
        crew: run.crew(),
        levels: Shared::new(&mut levels),
        visited: Bitmap::new(graph.vertices()),
    };
    search.visited.add(source);
    search.levels.set(source as usize, 1);

    let mut frontier = Frontier::Few(vec![source]);
    let mut level = 1;
    while !frontier.is_empty() {
        search.crew.step("level", level);
        level += 1;
        let left = search.visited.left();
        frontier = match frontier.direct(graph, run.workers, left) {
            Direction::Push(sparse) => search.push(&sparse, level),
            Direction::Pull(bitmap) => search.pull(&bitmap, level),
        };
    }
    Ok(Levels { source, levels })
}

struct Search<'a> {
    graph: GraphView<'a>,
    crew: Crew<'a>,
    levels: Shared<'a, u32>,
    /// Vertices that need no level any more.
    visited: Bitmap,
}

impl Search<'_> {
    fn push(&self, frontier: &Sparse, level: u32) -> Frontier {
        let pieces = (frontier.pieces(), frontier.ahead(self.graph.out()));
        let finds = self.crew.walk(pieces, Vec::new, |found, piece| {
            frontier.walk(piece, self.graph.out(), |_, neighbours| {
                for &neighbour in neighbours {
                    if self.visited.add(neighbour) {
                        self.levels.set(neighbour as usize, level);
                        found.push(neighbour);
                    }
                }
            })
        });
        Frontier::of_finds(finds, self.graph.vertices())
    }

    fn pull(&self, frontier: &Bitmap, level: u32) -> Frontier {
        let blocks = Blocks::by_vertices(self.graph.vertices());
        let next = Bitmap::new(self.graph.vertices());
        let incoming = self.graph.incoming();
        let is_sparse = self.visited.left() * SPARSE_ONE_IN < self.graph.vertices();
        let ahead = match is_sparse {
            false => Ahead::of_blocks(incoming, &blocks),
            true => Ahead::of(incoming, blocks.len(), |some| {
                let words = blocks.words(some.start).start..blocks.words(some.end - 1).end;
                let missing = |word| ones(self.visited.missing(word)).map(move |bit| word * WORD + bit);
                words.flat_map(missing).map(move |vertex| incoming.places(vertex))
            }),
        };
        let counts = self.crew.sweep(
            (blocks.len(), ahead),
            || 0,
            |count, block| {
                let mut walked = 0;
                for word in blocks.words(block) {
                    let found = self.pull_word(word, frontier, level, &mut walked);
                    next.set_word(word, found);
                    *count += found.count_ones() as usize;
                }
                walked
            },
        );
        Frontier::of_bitmap(next, counts.into_iter().sum())
    }

    /// Which of 64 vertices have a neighbour in the frontier.
    fn pull_word(&self, word: usize, frontier: &Bitmap, level: u32, walked: &mut u64) -> u64 {
        let missing = self.visited.missing(word);
        let (mut found, mut hopeless) = (0, 0);
        for bit in ones(missing) {
            let vertex = word * WORD + bit;
            let neighbours = self.graph.incoming().neighbours(vertex);
            match neighbours.iter().position(|neighbour| frontier.has(*neighbour)) {
                Some(index) => {
                    found |= 1 << bit;
                    self.levels.set(vertex, level);
                    *walked += index as u64 + 1;
                }
                None if neighbours.is_empty() => hopeless |= 1 << bit,
                None => *walked += neighbours.len() as u64,
            }
        }
        self.visited.set_word(word, self.visited.word(word) | found | hopeless);
        found
    }
}

impl<A: Arrays> Levels<A> {
    /// How many edges away a vertex is, if it can be reached.
    #[must_use]
    pub fn level(&self, vertex: u32) -> Option<u32> {
        self.levels[vertex as usize].checked_sub(1)
    }

    /// One more than the level of every vertex, 0 for those that cannot be reached.
    #[must_use]
    pub fn raw(&self) -> &[u32] {
        &self.levels
    }

    /// Looks at all levels.
    #[must_use]
    pub fn summary(&self) -> BfsSummary {
        BfsSummary {
            source: self.source,
            reached: self.levels.iter().filter(|level| **level > 0).count() as u64,
            depth: self.levels.iter().max().map_or(0, |level| level.saturating_sub(1)),
            checksum: checksum(&self.levels),
        }
    }
}
