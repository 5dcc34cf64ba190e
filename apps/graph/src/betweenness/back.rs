//! The way back: what every vertex has to do with the paths beyond it.

use super::Order;
use crate::bitmap::Bitmap;
use crate::crew::Crew;
use crate::frontier::Sparse;
use crate::shared::Shared;
use crate::view::GraphView;

/// What is known of each vertex.
pub(super) struct BackArrays<'a> {
    /// Vertices with a neighbour in the level after theirs.
    pub(super) parents: &'a Bitmap,
    /// How many shortest paths lead to it.
    pub(super) paths: &'a [f64],
    /// Its score.
    pub(super) scores: &'a mut [f64],
    /// `(1 + score) / paths`: what one path to it is worth to the vertex before it on that path. Kept, so that
    /// each edge costs one read and no division.
    pub(super) shares: &'a mut [f64],
}

/// Computes scores, from the last level to the one after the source.
pub(super) fn sum(graph: GraphView<'_>, crew: &Crew<'_>, order: &Order<'_>, arrays: BackArrays<'_>) {
    let BackArrays { parents, paths, scores, shares } = arrays;
    let (scores, shares) = (Shared::new(scores), Shared::new(shares));
    let mut successors = Bitmap::new(graph.vertices());
    let levels = order.bounds.len() - 1;
    for level in (1..levels).rev() {
        crew.step("level back", (levels - level) as u32);
        let vertices = order.level(level);
        let with_successors = Vec::from_iter(vertices.iter().copied().filter(|vertex| parents.has(*vertex)));
        let sparse = Sparse::measure(with_successors, graph.out(), crew.workers);
        crew.sweep(
            (sparse.pieces(), sparse.ahead(graph.out())),
            || (),
            |(), piece| {
                let mut walked = 0;
                for &vertex in sparse.whole(piece) {
                    let neighbours = graph.out().neighbours(vertex as usize);
                    let beyond = neighbours.iter().filter(|neighbour| successors.has(**neighbour));
                    let worth: f64 = beyond.map(|neighbour| shares.get(*neighbour as usize)).sum();
                    scores.set(vertex as usize, worth * paths[vertex as usize]);
                    walked += neighbours.len() as u64;
                }
                walked
            },
        );
        crew.workers.each_of(vertices, |vertex| {
            let vertex = vertex as usize;
            shares.set(vertex, (1.0 + scores.get(vertex)) / paths[vertex]);
        });
        if level + 1 < levels {
            successors.remove(order.level(level + 1));
        }
        successors.insert(vertices);
    }
}
