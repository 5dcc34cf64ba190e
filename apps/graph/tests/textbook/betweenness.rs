//! Betweenness centrality.

use outboard_graph::{RunError, betweenness};
use proptest::prelude::*;

use crate::graphs::{Graph, graphs, large};
use crate::{alone, bfs, with_all_threads};

/// Scores as Brandes wrote them down, over vertices in the order of their levels.
fn textbook(graph: &Graph, source: u32) -> Vec<f64> {
    let levels = bfs::textbook(graph, source);
    let mut order = Vec::from_iter((0..graph.vertices).filter(|vertex| levels[*vertex].is_some()));
    order.sort_by_key(|vertex| levels[*vertex]);
    let successors = |vertex: usize| {
        let is_next = |other: &usize| levels[*other] == levels[vertex].map(|level| level + 1);
        Vec::from_iter(graph.out.neighbours(vertex).iter().map(|other| *other as usize).filter(is_next))
    };
    let mut paths = vec![0.0; graph.vertices];
    paths[source as usize] = 1.0;
    for &vertex in &order {
        for successor in successors(vertex) {
            paths[successor] += paths[vertex];
        }
    }
    let mut scores = vec![0.0; graph.vertices];
    for &vertex in order.iter().rev() {
        for successor in successors(vertex) {
            scores[vertex] += paths[vertex] / paths[successor] * (1.0 + scores[successor]);
        }
    }
    scores[source as usize] = 0.0;
    scores
}

fn check(graph: &Graph, source: u32) {
    let (scores, summary) = with_all_threads(|run| {
        let betweenness = betweenness::run(graph.view(), source, run).unwrap();
        (betweenness.scores().to_vec(), betweenness.summary())
    });
    for (vertex, (score, expected)) in scores.iter().zip(textbook(graph, source)).enumerate() {
        let tolerance = 1e-12 * expected.max(1.0);
        assert!((score - expected).abs() <= tolerance, "vertex {vertex}: {score} instead of {expected}");
    }
    let levels = bfs::textbook(graph, source);
    assert_eq!(summary.reached, levels.iter().flatten().count() as u64);
    assert_eq!(Some(summary.depth), levels.into_iter().flatten().max());
    let (first, highest) = summary.top[0];
    assert_eq!(scores.iter().position(|score| *score == highest), Some(first as usize));
    assert!(scores.iter().all(|score| *score <= highest));
}

proptest! {
    #[test]
    fn scores_are_those_of_the_textbook(graph in graphs(), source: prop::sample::Index) {
        check(&graph, source.index(graph.vertices) as u32);
    }
}

#[test]
fn scores_of_large_graphs_are_those_of_the_textbook() {
    for is_symmetric in [false, true] {
        let graph = large(is_symmetric);
        for source in [0, 9_999, 19_999] {
            check(&graph, source);
        }
    }
}

/// Diamonds in a row, each of which doubles the number of paths.
fn diamonds(count: u32) -> Graph {
    let diamond = |at: u32| [(at, at + 1), (at, at + 2), (at + 1, at + 3), (at + 2, at + 3)];
    let edges = Vec::from_iter((0..count).flat_map(|at| diamond(at * 3)));
    Graph::directed(count as usize * 3 + 1, &edges)
}

#[test]
fn numbers_of_paths_beyond_exact_ones_are_still_the_same_for_all() {
    // Layers of vertices with many edges from each to the next: 2^53 paths are there after a few layers, and a sum
    // of so many depends on its order.
    const WIDTH: u32 = 100;
    let layer = |at: u32| {
        let step = |from: u32| (0..WIDTH).filter(move |to| from * to % 7 < 3).map(move |to| (from, to));
        (0..WIDTH).flat_map(step).map(move |(from, to)| (at * WIDTH + from, (at + 1) * WIDTH + to))
    };
    let edges = Vec::from_iter((0..30).flat_map(layer));
    check(&Graph::directed(31 * WIDTH as usize, &edges), 0);
    check(&diamonds(200), 0);
}

#[test]
fn too_many_paths_for_any_number_are_an_error() {
    let graph = diamonds(1100);
    let error = betweenness::run(graph.view(), 0, &alone()).unwrap_err();
    assert!(matches!(error, RunError::TooManyPaths { level: 2048 }), "{error}");
}

#[test]
fn a_source_that_does_not_exist_is_an_error() {
    let error = betweenness::run(Graph::directed(0, &[]).view(), 0, &alone()).unwrap_err();
    assert!(matches!(error, RunError::NoSuchVertex { vertices: 0, .. }), "{error}");
}
