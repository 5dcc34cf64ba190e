//! A graph larger than the memory that is given to it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outboard::{Buffer, CacheMode, FarError, FarMemory, FarOptions, FarStats};
use outboard_driver::paging::PagingError;
use outboard_graph::far::{FarGraph, Placement};
use outboard_graph::{CsrView, Dram, GraphView, Run, Sweeps, Workers, pagerank};
use outboard_graph_format::{Cleaning, Csr, Kind, Recipe, Skew};

use super::Finding;
use crate::commands::demo::stage::Stage;
use crate::numbers;

/// A third of the graph is here at a time.
const BUFFER: Buffer = Buffer::Fraction { numerator: 1, denominator: 3 };
/// A few mebibytes, made and computed on in a moment.
const RECIPE: Recipe = Recipe {
    kind: Kind::Rmat { skew: Skew { a: 0.57, b: 0.19, c: 0.19 }, permuted: false },
    scale: 14,
    degree: 16,
    seed: 1,
    cleaning: Cleaning { both_directions: true, drop_self_loops: false, drop_duplicates: false },
};

/// PageRank on a graph three times the buffer, by the agent or past it, and the same in memory.
pub(super) fn pagerank(stage: &mut Stage) -> Result<Finding> {
    let graph = RECIPE.make(&()).context("cannot make a graph")?;
    let rows = graph.out();
    let bytes = (size_of_val(rows.offsets()) + size_of_val(rows.targets())) as u64;
    let here = view(rows)?;
    let options = FarOptions {
        buffer: BUFFER,
        footprint: bytes,
        ..FarOptions::at(stage.memory()?.local()?.clone()).with_agent(Some(stage.agent()?.local()?.clone()))
    };
    let far = match FarMemory::connect(options) {
        Err(FarError::Paging(error @ PagingError::NoUserfaultfd(_))) => {
            return Ok(Finding::text(format!("left out: {error}")));
        }
        other => other?,
    };
    let placed = FarGraph::upload(&far, here, &Placement::cached(CacheMode::Auto))?;
    let before = far.stats();
    let (found, took) = ranks(placed.view()?, Sweeps::BackAndForth)?;
    let after = far.stats();
    let (expected, in_memory) = ranks(here, Sweeps::Upwards)?;
    ensure!(found == expected, "the result differs from that in memory: {found:?}, not {expected:?}");
    let faults = |stats: &FarStats| stats.faults_fetched + stats.faults_joined + stats.faults_rescued;
    let fetched = |stats: &FarStats| stats.traffic.demand + stats.traffic.ahead;
    let (faults, fetched) = (faults(&after) - faults(&before), fetched(&after) - fetched(&before));
    let text = format!(
        "PageRank on {} with {} here at a time: {faults} page faults, {} fetched, every bit as in memory",
        numbers::bytes(bytes),
        numbers::bytes(far.buffer() as u64),
        numbers::bytes(fetched),
    );
    Ok(Finding::text(text)
        .with("far_graph_faults", faults as f64)
        .with("far_graph_fetched_bytes", fetched as f64)
        .with("far_graph_seconds", took.as_secs_f64())
        .with("dram_graph_seconds", in_memory.as_secs_f64()))
}

fn view(rows: &Csr) -> Result<GraphView<'_>> {
    Ok(GraphView::symmetric(CsrView::new(rows.offsets(), rows.targets())?))
}

fn ranks(graph: GraphView<'_>, sweeps: Sweeps) -> Result<(pagerank::Summary, Duration)> {
    let workers = Workers::new(2)?;
    let run = Run { workers: &workers, arrays: &Dram, progress: &(), sweeps };
    let began = Instant::now();
    let ranks = pagerank::run(graph, pagerank::Options::default(), &run)?;
    Ok((ranks.summary(), began.elapsed()))
}
