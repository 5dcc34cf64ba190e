//! Radii: how far every vertex is from the farthest of up to 64 others, a lower bound of its eccentricity; the
//! largest is a lower bound of the graph's diameter.
//!
//! **Algorithm.** Breadth-first searches from up to 64 sources at once, a bit for each in a word per vertex, as in
//! Ligra. In every round a vertex takes over the bits of its incoming neighbours; the last round in which it gets
//! any is its radius. Rounds go in the cheaper direction. A bit that reached no vertex in a round will reach none
//! in later ones, so pulls look only for bits that are still on their way, skip vertices that have all those, and
//! stop at the neighbour that brings the last of them.
//!
//! **Sources** are drawn from a seed, among vertices that an edge leaves: others would say nothing.
//!
//! **Cost.** `O(rounds × (n + m))` at worst; a round with a small frontier costs that frontier's edges.
//!
//! **Access.** As in a breadth-first search: upward sweeps through the edges of a small frontier, or through those
//! of all vertices that lack bits. The words of neighbours are read at random; radii are written in the sweep.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use crate::bitmap::{Bitmap, WORD, ones};
use crate::blocks::Blocks;
use crate::checksum::checksum;
use crate::crew::Crew;
use crate::frontier::{Direction, Frontier, Sparse};
use crate::prefetch::Ahead;
use crate::random::Random;
use crate::shared::Shared;
use crate::view::GraphView;
use crate::{Arrays, RunContext, RunError};

/// How to estimate radii.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadiiOptions {
    /// How many sources: 1 to 64, default 64. There are fewer if too few vertices have edges.
    pub sources: u32,
    /// Decides which, default 1.
    pub seed: u64,
}

impl Default for RadiiOptions {
    fn default() -> Self {
        Self { sources: u64::BITS, seed: 1 }
    }
}

/// The estimated radius of every vertex.
#[derive(Debug)]
pub struct Radii<A: Arrays> {
    sources: Vec<u32>,
    /// One more than the radius; 0 where no search came.
    radii: A::Array<u32>,
}

/// What there is to say about radii.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RadiiSummary {
    /// How many sources there were.
    pub sources: u64,
    /// How many vertices at least one search reached.
    pub reached: u64,
    /// The largest radius: a lower bound of the diameter.
    pub largest: u32,
    /// The bits of all radii.
    #[serde(serialize_with = "crate::checksum::as_text")]
    pub checksum: u64,
}

/// Estimates radii.
pub fn run<A: Arrays>(
    graph: GraphView<'_>,
    options: RadiiOptions,
    run: &RunContext<'_, A>,
) -> Result<Radii<A>, RunError> {
    if !(1..=u64::BITS).contains(&options.sources) {
        let value = f64::from(options.sources);
        return Err(RunError::BadOption { name: "sources", value, range: "from 1 to 64" });
    }
    let mut radii = run.array::<u32>(graph.vertices(), "radii")?;
    let mut seen = run.array::<u64>(graph.vertices(), "searches")?;
    let mut next = run.array::<u64>(graph.vertices(), "new searches")?;
    let sources = choose(graph, options);
    for (bit, &source) in sources.iter().enumerate() {
        seen[source as usize] = 1 << bit;
        radii[source as usize] = 1;
    }
    let searches = Searches {
        graph,
        crew: run.crew(),
        radii: Shared::new(&mut radii),
        blocks: OnceLock::new(),
        unreachable: Bitmap::new(graph.vertices()),
    };
    let mut frontier = Frontier::of_finds(vec![sources.clone()], graph.vertices());
    let mut moving = sources.iter().fold(0, |bits, source| bits | seen[*source as usize]);
    let mut round = 0;
    while !frontier.is_empty() {
        round += 1;
        searches.crew.step("round", round);
        let words = Words { seen: &seen, next: Shared::new(&mut next), round };
        (frontier, moving) = match frontier.direct(graph, run.workers, graph.vertices()) {
            Direction::Push(sparse) => searches.push(&sparse, words),
            Direction::Pull(bitmap) => searches.pull(&bitmap, moving, words),
        };
        std::mem::swap(&mut seen, &mut next);
    }
    Ok(Radii { sources, radii })
}

/// Draws sources, all different.
fn choose(graph: GraphView<'_>, options: RadiiOptions) -> Vec<u32> {
    /// Each draw may read an offset far away, and some graphs have hardly any edges.
    const DRAWS_PER_SOURCE: u32 = 64;
    let vertices = graph.vertices() as u64;
    let wanted = options.sources as usize;
    let has_edges = |vertex: &u32| graph.out().degree(*vertex as usize) > 0;
    if vertices <= u64::from(options.sources) {
        return Vec::from_iter((0..vertices as u32).filter(has_edges));
    }
    let mut random = Random::new(options.seed);
    let mut sources = Vec::with_capacity(wanted);
    for _ in 0..options.sources * DRAWS_PER_SOURCE {
        let vertex = random.below(vertices) as u32;
        if sources.len() < wanted && !sources.contains(&vertex) && has_edges(&vertex) {
            sources.push(vertex);
        }
    }
    if sources.is_empty() {
        sources.extend((0..vertices as u32).find(has_edges));
    }
    sources
}

/// The words of one round: the searches that have seen each vertex, and those that will have afterwards.
///
/// Before the round, `next` has the words of the round before: it lacks what the frontier got since.
#[derive(Clone, Copy)]
struct Words<'a> {
    seen: &'a [u64],
    next: Shared<'a, u64>,
    round: u32,
}

struct Searches<'a> {
    graph: GraphView<'a>,
    crew: Crew<'a>,
    radii: Shared<'a, u32>,
    /// For pulls; a search that only pushes needs none.
    blocks: OnceLock<Blocks>,
    /// Vertices that were found to have no incoming edges.
    unreachable: Bitmap,
}

/// What one worker did in a round.
#[derive(Default)]
struct Found {
    vertices: Vec<u32>,
    count: usize,
    bits: u64,
}

impl Searches<'_> {
    /// Returns the next frontier, and which searches are in it.
    fn push(&self, frontier: &Sparse, words: Words<'_>) -> (Frontier, u64) {
        self.crew.workers.each_of(frontier.vertices(), |vertex| {
            words.next.set(vertex as usize, words.seen[vertex as usize]);
        });
        let pieces = (frontier.pieces(), frontier.ahead(self.graph.out()));
        let found = self.crew.walk(pieces, Found::default, |found, piece| {
            frontier.walk(piece, self.graph.out(), |vertex, neighbours| {
                let brought = words.seen[vertex as usize];
                for &neighbour in neighbours {
                    self.tell(neighbour, brought, words, found);
                }
            })
        });
        let bits = found.iter().fold(0, |bits, found| bits | found.bits);
        let finds = found.into_iter().map(|found| found.vertices).collect();
        (Frontier::of_finds(finds, self.graph.vertices()), bits)
    }

    fn tell(&self, vertex: u32, brought: u64, words: Words<'_>, found: &mut Found) {
        let seen = words.seen[vertex as usize];
        let new = brought & !seen;
        if new == 0 {
            return;
        }
        let cell = words.next.cell(vertex as usize);
        if new & !cell.load(Ordering::Relaxed) == 0 {
            return;
        }
        found.bits |= new;
        let before = cell.fetch_or(new, Ordering::Relaxed);
        // The first to bring anything in this round.
        if before & !seen == 0 {
            self.radii.set(vertex as usize, words.round + 1);
            found.vertices.push(vertex);
        }
    }

    fn pull(&self, frontier: &Bitmap, moving: u64, words: Words<'_>) -> (Frontier, u64) {
        let blocks = self.blocks.get_or_init(|| Blocks::by_edges(self.graph.incoming()));
        let next = Bitmap::new(self.graph.vertices());
        let ahead = Ahead::of_blocks(self.graph.incoming(), blocks);
        let found = self.crew.sweep((blocks.len(), ahead), Found::default, |found, block| {
            let mut walked = 0;
            for word in blocks.words(block) {
                // Vertices of the frontier that no other reaches have to be brought up to date all the same.
                let silent = self.unreachable.word(word);
                for bit in ones(frontier.word(word) & silent) {
                    words.next.set(word * WORD + bit, words.seen[word * WORD + bit]);
                }
                let mut changed = 0;
                for bit in ones(self.unreachable.missing(word)) {
                    let is_stale = frontier.word(word) >> bit & 1 != 0;
                    let new = self.ask(word * WORD + bit, moving, is_stale, words, &mut walked);
                    changed |= u64::from(new != 0) << bit;
                    found.bits |= new;
                }
                next.set_word(word, changed);
                found.count += changed.count_ones() as usize;
            }
            walked
        });
        let count = found.iter().map(|found| found.count).sum();
        let bits = found.iter().fold(0, |bits, found| bits | found.bits);
        (Frontier::of_bitmap(next, count), bits)
    }

    /// Lets a vertex take over the bits of its neighbours. Returns those that are new.
    fn ask(&self, vertex: usize, moving: u64, is_stale: bool, words: Words<'_>, walked: &mut u64) -> u64 {
        let seen = words.seen[vertex];
        let mut lacking = moving & !seen;
        let mut all = seen;
        if lacking != 0 {
            let neighbours = self.graph.incoming().neighbours(vertex);
            if neighbours.is_empty() {
                self.unreachable.add(vertex as u32);
            }
            for &neighbour in neighbours {
                let brought = words.seen[neighbour as usize];
                all |= brought;
                lacking &= !brought;
                *walked += 1;
                if lacking == 0 {
                    break;
                }
            }
        }
        if all != seen {
            self.radii.set(vertex, words.round + 1);
        }
        if is_stale || all != seen {
            words.next.set(vertex, all);
        }
        all & !seen
    }
}

impl<A: Arrays> Radii<A> {
    /// Where the searches began.
    #[must_use]
    pub fn sources(&self) -> &[u32] {
        &self.sources
    }

    /// How far a vertex is from the farthest source that can reach it, if any can.
    #[must_use]
    pub fn radius(&self, vertex: u32) -> Option<u32> {
        self.radii[vertex as usize].checked_sub(1)
    }

    /// One more than the radius of every vertex, 0 for those that no source can reach.
    #[must_use]
    pub fn raw(&self) -> &[u32] {
        &self.radii
    }

    /// Looks at all radii.
    #[must_use]
    pub fn summary(&self) -> RadiiSummary {
        RadiiSummary {
            sources: self.sources.len() as u64,
            reached: self.radii.iter().filter(|radius| **radius > 0).count() as u64,
            largest: self.radii.iter().max().map_or(0, |radius| radius.saturating_sub(1)),
            checksum: checksum(&self.radii),
        }
    }
}
