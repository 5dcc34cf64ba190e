//! The way out: levels, and how many shortest paths lead to each vertex.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::RunError;
use crate::bitmap::{Bitmap, WORD, ones};
use crate::blocks::Blocks;
use crate::crew::Crew;
use crate::frontier::{Direction, Frontier, Sparse};
use crate::prefetch::Ahead;
use crate::shared::Shared;
use crate::view::GraphView;

/// What is known of a graph when all its levels are.
pub(super) struct Counted {
    /// Where each level begins in the order, and where the last one ends.
    pub(super) bounds: Vec<usize>,
    /// Vertices with a neighbour in the level after theirs.
    pub(super) parents: Bitmap,
}

/// Below this, sums of whole numbers are exact in any order.
const EXACT: f64 = (1u64 << f64::MANTISSA_DIGITS) as f64;

/// Counts paths from the source, and lists vertices level by level.
pub(super) fn count(
    graph: GraphView<'_>,
    source: u32,
    crew: &Crew<'_>,
    paths: &mut [f64],
    order: &mut [u32],
) -> Result<Counted, RunError> {
    let search = Search {
        graph,
        crew,
        paths: Shared::new(paths),
        blocks: OnceLock::new(),
        visited: Bitmap::of(&[source], graph.vertices()),
        parents: Bitmap::new(graph.vertices()),
        is_infinite: AtomicBool::new(false),
    };
    search.paths.set(source as usize, 1.0);
    let mut frontier = Frontier::Few(vec![source]);
    let mut bounds = vec![0];
    let mut end = 0;
    while !frontier.is_empty() {
        end += frontier.write(&mut order[end..]);
        bounds.push(end);
        crew.step("level outwards", bounds.len() as u32 - 1);
        frontier = match frontier.direct(graph, crew.workers, search.visited.left()) {
            Direction::Push(sparse) if search.is_exact(&sparse) => search.push(&sparse),
            Direction::Push(sparse) => search.pull(&Bitmap::of(sparse.vertices(), graph.vertices())),
            Direction::Pull(bitmap) => search.pull(&bitmap),
        };
        if search.is_infinite.load(Ordering::Relaxed) {
            return Err(RunError::TooManyPaths { level: bounds.len() as u32 - 1 });
        }
    }
    Ok(Counted { bounds, parents: search.parents })
}

struct Search<'a> {
    graph: GraphView<'a>,
    crew: &'a Crew<'a>,
    paths: Shared<'a, f64>,
    /// For pulls; a search that only pushes needs none.
    blocks: OnceLock<Blocks>,
    /// Vertices of the frontier's level or before, and those known to have no incoming edges.
    visited: Bitmap,
    parents: Bitmap,
    is_infinite: AtomicBool,
}

impl Search<'_> {
    /// Whether no count of the next level can be too large to be exact.
    fn is_exact(&self, frontier: &Sparse) -> bool {
        let all: f64 =
            frontier.degrees().map(|(vertex, degree)| self.paths.get(vertex as usize) * degree as f64).sum();
        all < EXACT
    }

    fn push(&self, frontier: &Sparse) -> Frontier {
        let pieces = (frontier.pieces(), frontier.ahead(self.graph.out()));
        let finds = self.crew.walk(pieces, Vec::new, |found, piece| {
            frontier.walk(piece, self.graph.out(), |vertex, neighbours| {
                let paths = self.paths.get(vertex as usize);
                let mut is_parent = false;
                for &neighbour in neighbours {
                    if !self.visited.has(neighbour) {
                        is_parent = true;
                        if add(self.paths.cell(neighbour as usize), paths) == 0.0 {
                            found.push(neighbour);
                        }
                    }
                }
                if is_parent {
                    self.parents.add(vertex);
                }
            })
        });
        // Not before all paths to them have been counted.
        finds.iter().flatten().for_each(|vertex| _ = self.visited.add(*vertex));
        Frontier::of_finds(finds, self.graph.vertices())
    }

    fn pull(&self, frontier: &Bitmap) -> Frontier {
        let blocks = self.blocks.get_or_init(|| Blocks::by_edges(self.graph.incoming()));
        let next = Bitmap::new(self.graph.vertices());
        let counts = self.crew.sweep(
            (blocks.len(), Ahead::of_blocks(self.graph.incoming(), blocks)),
            || 0,
            |count, block| {
                let mut walked = 0;
                for word in blocks.words(block) {
                    let found = self.pull_word(word, frontier, &mut walked);
                    next.set_word(word, found);
                    *count += found.count_ones() as usize;
                }
                walked
            },
        );
        Frontier::of_bitmap(next, counts.into_iter().sum())
    }

    /// Which of 64 vertices have neighbours in the frontier.
    fn pull_word(&self, word: usize, frontier: &Bitmap, walked: &mut u64) -> u64 {
        let (mut found, mut hopeless) = (0, 0);
        for bit in ones(self.visited.missing(word)) {
            let vertex = word * WORD + bit;
            let neighbours = self.graph.incoming().neighbours(vertex);
            let mut paths = 0.0;
            for &neighbour in neighbours {
                if frontier.has(neighbour) {
                    paths += self.paths.get(neighbour as usize);
                    self.parents.add(neighbour);
                }
            }
            *walked += neighbours.len() as u64;
            if paths > 0.0 {
                self.paths.set(vertex, paths);
                found |= 1 << bit;
                if paths.is_infinite() {
                    self.is_infinite.store(true, Ordering::Relaxed);
                }
            }
            hopeless |= u64::from(neighbours.is_empty()) << bit;
        }
        self.visited.set_word(word, self.visited.word(word) | found | hopeless);
        found
    }
}

/// Adds to a number that others add to as well. Returns what it was before.
fn add(cell: &AtomicU64, more: f64) -> f64 {
    let sum = |before| Some((f64::from_bits(before) + more).to_bits());
    match cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum) {
        Ok(before) | Err(before) => f64::from_bits(before),
    }
}
