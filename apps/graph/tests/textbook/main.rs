//! Every application against its textbook version, on graphs of many shapes, with any number of threads.

// A test may fail wherever it is.
#![allow(clippy::unwrap_used)]

mod betweenness;
mod bfs;
mod components;
mod graphs;
mod pagerank;
mod radii;
mod views;

use std::sync::LazyLock;

use outboard_graph::{Dram, Run, Workers};

/// Odd numbers too, and more than there are cores.
static WORKERS: LazyLock<[Workers; 4]> = LazyLock::new(|| [1, 2, 4, 7].map(|n| Workers::new(n).unwrap()));

/// Does the same with each number of threads; the results have to be equal. Returns one of them.
fn with_all_threads<R: PartialEq + std::fmt::Debug>(work: impl Fn(&Run<'_, Dram>) -> R) -> R {
    let results = WORKERS.each_ref().map(|workers| work(&Run { workers, arrays: &Dram, progress: &() }));
    for pair in results.windows(2) {
        assert_eq!(pair[0], pair[1]);
    }
    let [first, ..] = results;
    first
}
