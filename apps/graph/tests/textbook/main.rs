//! Every application against its textbook version, on graphs of many shapes, with any number of threads.

// A test may fail wherever it is.
#![allow(clippy::unwrap_used)]

mod betweenness;
mod bfs;
mod components;
mod effort;
mod graphs;
mod pagerank;
mod radii;
mod views;

use std::sync::LazyLock;

use outboard_graph::{Dram, RunContext, Sweeps, Workers};

/// Odd numbers too, and more than there are cores.
static WORKERS: LazyLock<[Workers; 4]> = LazyLock::new(|| [1, 2, 4, 7].map(|n| Workers::new(n).unwrap()));

/// One worker, for tests of what is refused.
fn alone() -> RunContext<'static, Dram> {
    RunContext { workers: &WORKERS[0], arrays: &Dram, progress: &(), sweeps: Sweeps::Upwards }
}

/// Does the same with each number of threads, in either direction; the results have to be equal. Returns one of
/// them.
fn with_all_threads<R: PartialEq + std::fmt::Debug>(work: impl Fn(&RunContext<'_, Dram>) -> R) -> R {
    let with = |workers, sweeps| work(&RunContext { workers, arrays: &Dram, progress: &(), sweeps });
    let result = with(&WORKERS[0], Sweeps::Upwards);
    for workers in &*WORKERS {
        assert_eq!(with(workers, Sweeps::BackAndForth), result);
        if workers.threads() > 1 {
            assert_eq!(with(workers, Sweeps::Upwards), result);
        }
    }
    result
}
