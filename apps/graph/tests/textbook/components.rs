//! Connected components.

use outboard_graph::components;
use proptest::prelude::*;

use crate::graphs::{Graph, graphs, large};
use crate::with_all_threads;

/// Labels by walking from each vertex that has none yet, edges in either direction.
fn textbook(graph: &Graph) -> Vec<u32> {
    let mut labels = vec![u32::MAX; graph.vertices];
    for start in 0..graph.vertices {
        let mut stack = vec![start as u32];
        while let Some(vertex) = stack.pop() {
            if labels[vertex as usize] == u32::MAX {
                labels[vertex as usize] = start as u32;
                stack.extend_from_slice(graph.out.neighbours(vertex as usize));
                stack.extend_from_slice(graph.incoming.neighbours(vertex as usize));
            }
        }
    }
    labels
}

fn check(graph: &Graph) {
    let (labels, summary) = with_all_threads(|run| {
        let labels = components::run(graph.view(), run).unwrap();
        (labels.labels().to_vec(), labels.summary())
    });
    assert_eq!(labels, textbook(graph));
    let size = |label: u32| labels.iter().filter(|other| **other == label).count() as u64;
    let roots =
        Vec::from_iter((0..graph.vertices as u32).filter(|vertex| labels[*vertex as usize] == *vertex));
    assert_eq!(summary.components, roots.len() as u64);
    assert_eq!(summary.largest.map_or(0, size), summary.largest_size);
    if graph.vertices < 1000 {
        let sizes = Vec::from_iter(roots.iter().map(|root| size(*root)));
        assert_eq!(sizes.iter().copied().max().unwrap_or(0), summary.largest_size);
        assert_eq!(sizes.iter().filter(|size| **size == 1).count() as u64, summary.single);
    }
}

proptest! {
    #[test]
    fn labels_are_those_of_the_textbook(graph in graphs()) {
        check(&graph);
    }
}

#[test]
fn labels_of_large_graphs_are_those_of_the_textbook() {
    for is_symmetric in [false, true] {
        check(&large(is_symmetric));
    }
}

#[test]
fn trees_that_hang_together_by_their_last_edges_only_are_joined() {
    // Cliques whose first neighbours are all within; every clique's last vertex leads to the next clique's first.
    let clique =
        |at: u32| (0..5).flat_map(move |one| (0..one).map(move |other| (at * 5 + one, at * 5 + other)));
    let mut edges = Vec::from_iter((0..2000).flat_map(clique));
    edges.extend((0..1999).map(|at| (at * 5 + 4, (at + 1) * 5)));
    for build in [Graph::directed, Graph::symmetric] {
        let graph = build(10_000, &edges);
        let labels = with_all_threads(|run| components::run(graph.view(), run).unwrap().labels().to_vec());
        assert_eq!(labels, [0; 10_000]);
    }
}

#[test]
fn an_empty_graph_has_no_components() {
    let graph = Graph::symmetric(0, &[]);
    let summary = with_all_threads(|run| components::run(graph.view(), run).unwrap().summary());
    assert_eq!((summary.components, summary.largest, summary.largest_size), (0, None, 0));
}
