//! PageRank.

use outboard_graph::{RunError, pagerank};
use proptest::prelude::*;

use crate::graphs::{Graph, graphs, large};
use crate::{alone, with_all_threads};

/// Ranks by pushing, in double precision.
fn textbook(graph: &Graph, damping: f64, iterations: u32) -> Vec<f64> {
    let vertices = graph.vertices as f64;
    let mut ranks = vec![1.0 / vertices; graph.vertices];
    for _ in 0..iterations {
        let is_dangling = |(vertex, _): &(usize, &f64)| graph.out.neighbours(*vertex).is_empty();
        let dangling: f64 = ranks.iter().enumerate().filter(is_dangling).map(|(_, rank)| rank).sum();
        let mut next = vec![(1.0 - damping + damping * dangling) / vertices; graph.vertices];
        for (vertex, rank) in ranks.iter().enumerate() {
            let neighbours = graph.out.neighbours(vertex);
            for &neighbour in neighbours {
                next[neighbour as usize] += damping * rank / neighbours.len() as f64;
            }
        }
        ranks = next;
    }
    ranks
}

fn check(graph: &Graph, options: pagerank::PagerankOptions) {
    let (ranks, summary) = with_all_threads(|run| {
        let ranks = pagerank::run(graph.view(), options, run).unwrap();
        (ranks.ranks().to_vec(), ranks.summary())
    });
    let expected = textbook(graph, options.damping, summary.iterations);
    for (vertex, (rank, expected)) in ranks.iter().zip(&expected).enumerate() {
        let error = (f64::from(*rank) - expected).abs() / expected;
        assert!(error < 1e-6, "vertex {vertex}: {rank} instead of {expected}");
    }
    assert!((summary.sum - 1.0).abs() < 1e-6, "{summary:?}");
    let (first, highest) = summary.top[0];
    assert_eq!(ranks.iter().position(|rank| *rank == highest), Some(first as usize));
    assert!(ranks.iter().all(|rank| *rank <= highest));
}

proptest! {
    #[test]
    fn ranks_are_those_of_the_textbook(graph in graphs(), iterations in 0..12u32, damping in 0.0..0.99) {
        check(&graph, pagerank::PagerankOptions { damping, iterations, tolerance: 0.0 });
    }
}

#[test]
fn ranks_of_a_large_graph_are_those_of_the_textbook() {
    for is_symmetric in [false, true] {
        check(&large(is_symmetric), pagerank::PagerankOptions::default());
    }
}

#[test]
fn ranks_that_hardly_change_end_the_iterations() {
    let graph = large(true);
    let options = pagerank::PagerankOptions { iterations: 1000, tolerance: 1e-4, ..Default::default() };
    let summary = with_all_threads(|run| pagerank::run(graph.view(), options, run).unwrap().summary());
    assert!((5..100).contains(&summary.iterations) && summary.change <= 1e-4, "{summary:?}");
}

#[test]
fn an_empty_graph_has_no_ranks() {
    let graph = Graph::directed(0, &[]);
    let summary = with_all_threads(|run| {
        let ranks = pagerank::run(graph.view(), pagerank::PagerankOptions::default(), run).unwrap();
        (ranks.ranks().len(), ranks.summary().top.len())
    });
    assert_eq!(summary, (0, 0));
}

#[test]
fn impossible_damping_is_an_error() {
    let graph = Graph::directed(1, &[]);
    for damping in [-0.1, 1.0, f64::NAN] {
        let options = pagerank::PagerankOptions { damping, ..Default::default() };
        let error = pagerank::run(graph.view(), options, &alone()).unwrap_err();
        assert!(matches!(error, RunError::BadOption { .. }), "{error}");
    }
}
