//! Breadth-first search.

use std::collections::VecDeque;

use outboard_graph::{RunError, bfs};
use proptest::prelude::*;

use crate::graphs::{Graph, graphs, large};
use crate::{alone, with_all_threads};

/// Levels by a queue.
pub(crate) fn textbook(graph: &Graph, source: u32) -> Vec<Option<u32>> {
    let mut levels = vec![None; graph.vertices];
    levels[source as usize] = Some(0);
    let mut queue = VecDeque::from([(source, 0)]);
    while let Some((vertex, level)) = queue.pop_front() {
        for &neighbour in graph.out.neighbours(vertex as usize) {
            if levels[neighbour as usize].is_none() {
                levels[neighbour as usize] = Some(level + 1);
                queue.push_back((neighbour, level + 1));
            }
        }
    }
    levels
}

fn check(graph: &Graph, source: u32) {
    let (levels, summary) = with_all_threads(|run| {
        let levels = bfs::run(graph.view(), source, run).unwrap();
        (Vec::from_iter((0..graph.vertices as u32).map(|vertex| levels.level(vertex))), levels.summary())
    });
    assert_eq!(levels, textbook(graph, source));
    assert_eq!(summary.reached, levels.iter().flatten().count() as u64);
    assert_eq!(Some(summary.depth), levels.iter().copied().flatten().max());
}

proptest! {
    #[test]
    fn levels_are_those_of_the_textbook(graph in graphs(), source: prop::sample::Index) {
        check(&graph, source.index(graph.vertices) as u32);
    }
}

#[test]
fn levels_of_a_large_graph_are_those_of_the_textbook() {
    for is_symmetric in [false, true] {
        let graph = large(is_symmetric);
        for source in [0, 9_999, 15_000, 19_999] {
            check(&graph, source);
        }
    }
}

#[test]
fn a_source_that_does_not_exist_is_an_error() {
    for vertices in [0, 5] {
        let graph = Graph::directed(vertices, &[]);
        let error = bfs::run(graph.view(), vertices as u32, &alone()).unwrap_err();
        assert!(matches!(error, RunError::NoSuchVertex { .. }), "{error}");
    }
}
