//! Radii.

use outboard_graph::{RunError, radii};
use proptest::prelude::*;

use crate::graphs::{Graph, graphs, large};
use crate::{alone, bfs, with_all_threads};

/// Radii by one search after the other.
fn textbook(graph: &Graph, sources: &[u32]) -> Vec<Option<u32>> {
    let mut radii = vec![None; graph.vertices];
    for &source in sources {
        for (radius, level) in radii.iter_mut().zip(bfs::textbook(graph, source)) {
            *radius = level.max(*radius);
        }
    }
    radii
}

fn check(graph: &Graph, options: radii::RadiiOptions) {
    let (radii, sources, summary) = with_all_threads(|run| {
        let radii = radii::run(graph.view(), options, run).unwrap();
        let all = Vec::from_iter((0..graph.vertices as u32).map(|vertex| radii.radius(vertex)));
        (all, radii.sources().to_vec(), radii.summary())
    });
    assert_eq!(radii, textbook(graph, &sources));
    assert_eq!(summary.reached, radii.iter().flatten().count() as u64);
    assert_eq!(summary.largest, radii.iter().copied().flatten().max().unwrap_or(0));
    assert_eq!(summary.sources, sources.len() as u64);

    let mut distinct = sources.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), sources.len());
    assert!(sources.iter().all(|source| !graph.out.neighbours(*source as usize).is_empty()));
    let with_edges = (0..graph.vertices).filter(|vertex| !graph.out.neighbours(*vertex).is_empty()).count();
    assert!(sources.len() <= options.sources as usize);
    assert_eq!(sources.is_empty(), with_edges == 0);
}

proptest! {
    #[test]
    fn radii_are_those_of_the_textbook(graph in graphs(), sources in 1..=64u32, seed: u64) {
        check(&graph, radii::RadiiOptions { sources, seed });
    }
}

#[test]
fn radii_of_large_graphs_are_those_of_the_textbook() {
    for is_symmetric in [false, true] {
        let graph = large(is_symmetric);
        for sources in [1, 64] {
            check(&graph, radii::RadiiOptions { sources, ..Default::default() });
        }
    }
}

#[test]
fn graphs_without_edges_have_no_radii() {
    for vertices in [0, 1, 100] {
        check(&Graph::directed(vertices, &[]), radii::RadiiOptions::default());
    }
}

#[test]
fn the_only_vertex_that_an_edge_leaves_is_found_where_draws_miss_it() {
    let graph = Graph::directed(100_000, &[(77_777, 3)]);
    for seed in 0..4 {
        check(&graph, radii::RadiiOptions { sources: 1, seed });
    }
}

#[test]
fn numbers_of_sources_that_do_not_fit_a_word_are_an_error() {
    let graph = Graph::directed(1, &[]);
    for sources in [0, 65] {
        let error = radii::run(graph.view(), radii::RadiiOptions { sources, seed: 0 }, &alone()).unwrap_err();
        assert!(matches!(error, RunError::BadOption { .. }), "{error}");
    }
}
