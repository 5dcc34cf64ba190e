//! Connected components: which vertices hang together, whatever the direction of edges.
//!
//! **Algorithm.** A forest of parents in which two trees are joined by hooking the larger root below the smaller, so
//! that the root of a finished tree is the smallest vertex of its component. First every vertex joins two of its
//! neighbours, which in most graphs leaves one huge tree and some crumbs; then only vertices outside that tree join
//! the rest of their neighbours, because an edge between two vertices of one tree says nothing new (the idea of
//! Afforest, by Sutton, Ben-Nun and Barak).
//!
//! **Cost.** About `2n` edges and what the crumbs have, at worst `O(m)` joins of nearly constant time each.
//!
//! **Access.** One upward sweep through offsets and edges for the two neighbours: every chunk of far memory is
//! touched once, but hardly an edge of it is walked. The second sweep touches crumbs only, and of a symmetric graph
//! only those with more than two edges, known from bits in the memory of the process. Propagating labels instead
//! would walk all edges of active vertices again in every round. Parents are read and written at random.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use crate::bitmap::Bitmap;
use crate::blocks::Blocks;
use crate::checksum::checksum;
use crate::crew::Crew;
use crate::prefetch::Ahead;
use crate::random::Random;
use crate::shared::Shared;
use crate::view::GraphView;
use crate::{Arrays, RunContext, RunError};

/// The component of every vertex.
#[derive(Debug)]
pub struct Labels<A: Arrays> {
    labels: A::Array<u32>,
}

/// What there is to say about components.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ComponentsSummary {
    /// How many there are.
    pub components: u64,
    /// The smallest vertex of the largest one; of equals, the smallest.
    pub largest: Option<u32>,
    /// How many vertices the largest one has.
    pub largest_size: u64,
    /// How many vertices are a component of their own.
    pub single: u64,
    /// The bits of all labels.
    #[serde(serialize_with = "crate::checksum::as_text")]
    pub checksum: u64,
}

/// How many neighbours every vertex joins at first. With one, trees stay small; a third joins hardly any more.
const NEIGHBOURS: usize = 2;
/// How many vertices are asked which tree they are in, to find the largest.
const ASKED: usize = 1024;

/// Finds the components.
pub fn run<A: Arrays>(graph: GraphView<'_>, run: &RunContext<'_, A>) -> Result<Labels<A>, RunError> {
    let mut labels = run.array::<u32>(graph.vertices(), "labels")?;
    let joining = Joining {
        graph,
        crew: run.crew(),
        forest: Forest { parents: Shared::new(&mut labels) },
        blocks: Blocks::by_vertices(graph.vertices()),
        done: Bitmap::new(graph.vertices()),
    };
    joining.each_vertex(|vertex| joining.forest.parents.set(vertex as usize, vertex));
    joining.crew.step("sweep", 1);
    joining.join_some();
    joining.each_vertex(|vertex| joining.forest.flatten(vertex));
    if let Some(largest) = joining.largest() {
        joining.crew.step("sweep", 2);
        joining.join_rest(largest);
        joining.each_vertex(|vertex| joining.forest.flatten(vertex));
    }
    Ok(Labels { labels })
}

/// Trees of vertices, each below a smaller one; the root is its own parent.
#[derive(Clone, Copy)]
struct Forest<'a> {
    parents: Shared<'a, u32>,
}

impl Forest<'_> {
    fn parent(self, vertex: u32) -> u32 {
        self.parents.get(vertex as usize)
    }

    /// Joins the trees of two vertices. Others may join trees meanwhile: parents only ever become smaller, so a
    /// stale one costs another turn and nothing else.
    fn join(self, one: u32, other: u32) {
        let (mut one, mut other) = (self.parent(one), self.parent(other));
        while one != other {
            let (low, high) = (one.min(other), one.max(other));
            let above = self.parent(high);
            if above == low {
                return;
            }
            let cell = self.parents.cell(high as usize);
            if above == high && cell.compare_exchange(high, low, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                return;
            }
            (one, other) = (self.parent(self.parent(high)), self.parent(low));
        }
    }

    /// Puts a vertex right below its root, while no trees are joined.
    fn flatten(self, vertex: u32) {
        let parent = self.parent(vertex);
        let mut root = parent;
        while root != self.parent(root) {
            root = self.parent(root);
        }
        // What does not change is not written: it would have to travel back to far memory.
        if root != parent {
            self.parents.set(vertex as usize, root);
        }
    }
}

struct Joining<'a> {
    graph: GraphView<'a>,
    crew: Crew<'a>,
    forest: Forest<'a>,
    blocks: Blocks,
    /// Vertices that have no edge left to look at.
    done: Bitmap,
}

impl Joining<'_> {
    fn each_vertex(&self, work: impl Fn(u32) + Sync) {
        self.crew.workers.each(self.blocks.len(), |block| {
            self.blocks.range(block).for_each(|vertex| work(vertex as u32));
        });
    }

    fn join_all(&self, vertex: u32, neighbours: &[u32]) -> u64 {
        neighbours.iter().for_each(|neighbour| self.forest.join(vertex, *neighbour));
        neighbours.len() as u64
    }

    /// Joins every vertex with the first of its neighbours.
    fn join_some(&self) {
        self.crew.sweep(
            (self.blocks.len(), Ahead::none()),
            || (),
            |(), block| {
                let mut walked = 0;
                for vertex in self.blocks.range(block) {
                    let neighbours = self.graph.out().neighbours(vertex);
                    // In a directed graph there are edges towards the vertex as well.
                    if neighbours.len() <= NEIGHBOURS && self.graph.is_symmetric() {
                        self.done.add(vertex as u32);
                    }
                    walked += self.join_all(vertex as u32, &neighbours[..neighbours.len().min(NEIGHBOURS)]);
                }
                walked
            },
        );
    }

    /// Joins every vertex outside of one tree with the rest of its neighbours.
    fn join_rest(&self, largest: u32) {
        self.crew.sweep(
            (self.blocks.len(), Ahead::none()),
            || (),
            |(), block| {
                let mut walked = 0;
                for vertex in self.blocks.range(block) {
                    // A vertex that was joined to the tree just now may be passed over, too: the other end of each
                    // of its edges is in the tree as well, or looks at that edge itself.
                    if self.done.has(vertex as u32) || self.forest.parent(vertex as u32) == largest {
                        continue;
                    }
                    let neighbours = self.graph.out().neighbours(vertex);
                    walked += self.join_all(vertex as u32, &neighbours[neighbours.len().min(NEIGHBOURS)..]);
                    if !self.graph.is_symmetric() {
                        walked += self.join_all(vertex as u32, self.graph.incoming().neighbours(vertex));
                    }
                }
                walked
            },
        );
    }

    /// The root of what is probably the largest tree. Another one would only cost time.
    fn largest(&self) -> Option<u32> {
        let vertices = u64::try_from(self.graph.vertices()).ok().filter(|vertices| *vertices > 0)?;
        let mut random = Random::new(0);
        let mut counts = HashMap::new();
        for _ in 0..ASKED {
            *counts.entry(self.forest.parent(random.below(vertices) as u32)).or_insert(0) += 1;
        }
        let most = counts.into_iter().max_by_key(|(root, count)| (*count, std::cmp::Reverse(*root)));
        most.map(|(root, _)| root)
    }
}

impl<A: Arrays> Labels<A> {
    /// The component of every vertex, named after its smallest vertex.
    #[must_use]
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Looks at all labels; needs 4 bytes for each meanwhile.
    #[must_use]
    pub fn summary(&self) -> ComponentsSummary {
        let mut sizes = vec![0u32; self.labels.len()];
        self.labels.iter().for_each(|label| sizes[*label as usize] += 1);
        let largest = crate::top::top(&sizes).first().copied();
        ComponentsSummary {
            components: sizes.iter().filter(|size| **size > 0).count() as u64,
            largest: largest.map(|(label, _)| label),
            largest_size: largest.map_or(0, |(_, size)| size.into()),
            single: sizes.iter().filter(|size| **size == 1).count() as u64,
            checksum: checksum(&self.labels),
        }
    }
}
