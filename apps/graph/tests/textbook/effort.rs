//! How many edges the applications look at: what they skip need not come from far memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use outboard_graph::{
    Dram, GraphView, RunContext, Step, StepProgress, Sweeps, Workers, betweenness, bfs, components, pagerank,
    radii,
};

use crate::graphs::{Graph, large};

/// Counts what it hears of.
#[derive(Default)]
struct Watcher {
    walked: AtomicU64,
    steps: Mutex<Vec<Step>>,
}

impl StepProgress for Watcher {
    fn step(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }

    fn walked(&self, edges: u64) {
        self.walked.fetch_add(edges, Ordering::Relaxed);
    }
}

/// The share of the graph's edges that were walked, one walked twice counting twice, and the steps.
fn effort(graph: &Graph, work: impl Fn(GraphView<'_>, &RunContext<'_, Dram>)) -> (f64, Vec<Step>) {
    let watcher = Watcher::default();
    let workers = Workers::new(2).unwrap();
    let sweeps = Sweeps::Upwards;
    work(graph.view(), &RunContext { workers: &workers, arrays: &Dram, progress: &watcher, sweeps });
    let walked = watcher.walked.into_inner() as f64 / graph.view().edges() as f64;
    (walked, watcher.steps.into_inner().unwrap())
}

#[test]
fn a_search_skips_most_edges() {
    let (walked, steps) = effort(&large(true), |graph, run| drop(bfs::run(graph, 0, run).unwrap()));
    assert!((0.02..0.3).contains(&walked), "{walked}");
    let numbers = Vec::from_iter(steps.iter().map(|step| (step.what, step.number)));
    let depth = steps.len() as u32;
    assert!(depth > 100 && numbers == Vec::from_iter((1..=depth).map(|number| ("level", number))));
}

#[test]
fn ranks_need_every_edge_once_in_each_iteration() {
    let run_it = |graph: GraphView<'_>, run: &RunContext<'_, Dram>| {
        drop(pagerank::run(graph, pagerank::PagerankOptions::default(), run).unwrap());
    };
    let graph = large(false);
    let (walked, steps) = effort(&graph, run_it);
    assert_eq!((walked, steps.len()), (10.0, 10));
    let edges = Some(graph.view().edges() as u64);
    assert_eq!(steps[3], Step { what: "iteration", number: 4, of: Some(10), edges });
}

#[test]
fn components_need_about_two_edges_of_a_vertex() {
    let graph = large(true);
    let (walked, steps) = effort(&graph, |graph, run| drop(components::run(graph, run).unwrap()));
    let two_each = 2.0 * graph.vertices as f64 / graph.view().edges() as f64;
    assert!((two_each / 4.0..two_each * 1.1).contains(&walked), "{walked} against {two_each}");
    assert_eq!(steps.len(), 2);
}

#[test]
fn many_searches_at_once_take_a_few_passes() {
    let run_it = |graph: GraphView<'_>, run: &RunContext<'_, Dram>| {
        drop(radii::run(graph, radii::RadiiOptions::default(), run).unwrap());
    };
    let (walked, _) = effort(&large(true), run_it);
    assert!((0.5..4.0).contains(&walked), "{walked}");
}

#[test]
fn betweenness_walks_edges_out_and_back_less_than_twice_each() {
    let (walked, steps) = effort(&large(true), |graph, run| drop(betweenness::run(graph, 0, run).unwrap()));
    assert!((0.3..2.0).contains(&walked), "{walked}");
    let back = steps.iter().filter(|step| step.what == "level back").count();
    assert_eq!(steps.len(), 2 * back + 1);
}
