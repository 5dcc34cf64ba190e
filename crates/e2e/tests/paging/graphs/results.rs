//! Five results in far memory, and in memory.

use std::time::Duration;

use outboard::{CacheMode, FarOptions, Outboard, Path};
use outboard_graph::far::{FarArrays, FarGraph, FarLayout};
use outboard_graph::{Application, Dram, Sweeps};

use super::cases::{Case, WAYS, cases};
use super::cluster::Cluster;
use super::samples::{Sample, run_all};

const PATIENCE: Duration = Duration::from_secs(30);

fn options(case: &Case, sample: &Sample) -> FarOptions {
    let state = |application: Application| application.state_bytes(sample.view().vertices() as u64);
    let state =
        if case.is_state_far { Application::ALL.into_iter().map(state).max().unwrap_or(0) } else { 0 };
    FarOptions {
        chunk: case.chunk,
        footprint: sample.bytes() + state,
        ..FarOptions::default().with_buffer(case.buffer())
    }
}

/// Runs all applications on a graph in far memory, and compares.
fn try_case(cluster: &Cluster, case: &Case) {
    let sample = Sample::of(case.size(), case.is_symmetric);
    let (path, cache) = case.way;
    let mut outboard = Outboard::at(cluster.server(case.by));
    if path != Path::Direct {
        outboard = outboard.with_agent(cluster.agent(case.by));
    }
    let far = outboard.far_with(options(case, sample)).unwrap();
    let (chunk, state_chunk) = (case.chunk, case.chunk);
    let placement = FarLayout { chunk, state_chunk, path, ..FarLayout::cached(cache) };
    let graph = match case.is_image {
        true => FarGraph::open(&far, cluster.image(case.is_symmetric), case.is_symmetric, &placement),
        false => FarGraph::upload(&far, sample.view(), &placement),
    };
    let graph = graph.unwrap();
    assert!(path == Path::Direct || far.wait_for_agent(PATIENCE), "the agent does not answer: {case:?}");
    let view = graph.view().unwrap_or_else(|error| panic!("{error}: {case:?} {:?}", far.stats()));
    let before = far.stats();
    let results = match case.is_state_far {
        true => run_all(view, &FarArrays::new(&far, &placement), Sweeps::BackAndForth),
        false => run_all(view, &Dram, Sweeps::BackAndForth),
    };
    for (found, expected) in results.iter().zip(sample.expected()) {
        assert_eq!(found, expected, "{case:?}");
    }
    let stats = far.stats();
    // It was far memory that was tried, in the way that was meant.
    assert!(stats.evictions > before.evictions, "everything had room: {case:?} {stats:?}");
    assert_eq!(stats.saves > before.saves, case.is_state_far, "{case:?} {stats:?}");
    assert_eq!(stats.agent_losses, 0, "{case:?}");
    let traffic = &stats.traffic;
    match path {
        Path::Direct => assert_eq!((traffic.by_agent, traffic.by_copy), (0, 0), "{case:?}"),
        Path::Agent => assert!(traffic.by_agent > 0, "{case:?} {stats:?}"),
        Path::Auto => {}
    }
    assert_eq!(traffic.by_copy > 0 && path == Path::Agent, case.way == WAYS[2], "{case:?} {stats:?}");
    if case.way == (Path::Agent, CacheMode::Dynamic) {
        assert!(stats.agent_hits > 0, "{case:?} {stats:?}");
    }
}

fn try_way(number: usize) {
    let cluster = Cluster::start();
    for case in cases().iter().filter(|case| case.way == WAYS[number]) {
        try_case(&cluster, case);
    }
    cluster.stop();
}

#[test]
fn by_the_direct_path() {
    try_way(0);
}

#[test]
fn by_an_agent_that_keeps_nothing() {
    try_way(1);
}

#[test]
fn by_an_agent_with_a_copy_of_the_vertices() {
    try_way(2);
}

#[test]
fn by_an_agent_that_keeps_what_was_fetched() {
    try_way(3);
}

#[test]
fn by_an_agent_that_keeps_what_pays() {
    try_way(4);
}

#[test]
fn by_the_faster_way_to_a_copy_of_the_vertices() {
    try_way(5);
}

#[test]
fn by_the_faster_way_whatever_is_kept() {
    try_way(6);
}
