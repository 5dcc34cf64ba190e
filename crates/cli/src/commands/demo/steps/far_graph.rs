//! A graph larger than the memory that is given to it.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::super::stage::By;
use anyhow::{Context, Result, bail, ensure};
use outboard::{BufferSize, CacheMode, FarError, FarMemory, FarOptions, FarStats, Path};
use outboard_graph::far::{FarGraph, FarLayout};
use outboard_graph::{
    self as graph, CsrView, Dram, GraphView, RunContext, StepProgress, Sweeps, Workers, pagerank,
};
use outboard_graph_format::{Cleaning, Csr, GeneratorKind, Recipe, Skew};

use super::{Finding, times};
use crate::commands::demo::stage::{Stage, Victim};
use crate::numbers;

/// A third of the graph is here at a time.
const BUFFER: BufferSize = BufferSize::Fraction { numerator: 1, denominator: 3 };
/// A few mebibytes, made and computed on in a moment.
const RECIPE: Recipe = Recipe {
    kind: GeneratorKind::Rmat { skew: Skew { a: 0.57, b: 0.19, c: 0.19 }, permuted: false },
    scale: 14,
    degree: 16,
    seed: 1,
    cleaning: Cleaning { both_directions: true, drop_self_loops: false, drop_duplicates: false },
};

/// PageRank on a graph three times the buffer, by the agent or past it, and the same in memory.
pub(super) fn pagerank(stage: &mut Stage) -> Result<Finding> {
    let graph = RECIPE.make(&()).context("cannot make a graph")?;
    let (here, bytes) = view(graph.out())?;
    let Some(far) = connect(stage, bytes)? else { return Ok(Finding::text(NO_USERFAULTFD)) };
    let (expected, first) = ranks(here, Sweeps::Upwards, &())?;
    let placed = FarGraph::upload(&far, here, &FarLayout::cached(CacheMode::Auto))?;
    stage.go_on()?;
    let before = far.stats();
    let (found, took) = ranks(placed.view()?, Sweeps::BackAndForth, &())?;
    let after = far.stats();
    // Once before and once after: who is first finds cold caches and sleeping processors.
    let in_memory = ranks(here, Sweeps::Upwards, &())?.1.min(first);
    ensure!(found == expected, "the result differs from that in memory: {found:?}, not {expected:?}");
    let (faults, fetched) = (faults(&after) - faults(&before), fetched(&after) - fetched(&before));
    let buffer = far.buffer() as u64;
    let text = format!(
        "PageRank on a graph of {} through plain pointers, {} of it here at a time: {faults} page faults, {} fetched, \
         every bit as in memory",
        numbers::bytes(bytes),
        numbers::bytes(buffer),
        numbers::bytes(fetched),
    );
    let gain = match took >= in_memory {
        true => {
            let slower = times(took.as_secs_f64(), in_memory.as_secs_f64());
            format!("a third of the memory, for {slower} the time")
        }
        // Threads that compute in memory spin where they meet, and those that wait for pages leave the processor.
        false => "a third of the memory; times say little while other programs use the processors".to_owned(),
    };
    Ok(Finding::text(text)
        .gained(gain)
        .with("far_graph_bytes", bytes as f64)
        .with("far_graph_buffer_bytes", buffer as f64)
        .with("far_graph_faults", faults as f64)
        .with("far_graph_fetched_bytes", fetched as f64)
        .with("far_graph_seconds", took.as_secs_f64())
        .with("dram_graph_seconds", in_memory.as_secs_f64()))
}

/// Runs with every chunk by the agent, which is killed in the fourth iteration.
pub(super) fn without_agent(stage: &mut Stage) -> Result<Finding> {
    let graph = RECIPE.make(&()).context("cannot make a graph")?;
    let (here, bytes) = view(graph.out())?;
    let Some(far) = connect(stage, bytes)? else { return Ok(Finding::text(NO_USERFAULTFD)) };
    let (expected, _) = ranks(here, Sweeps::Upwards, &())?;
    let placement = FarLayout { path: Path::Agent, ..FarLayout::cached(CacheMode::Auto) };
    let placed = FarGraph::upload(&far, here, &placement)?;
    let killer = Killer { victim: stage.victim()?, far: &far, killed: OnceLock::new() };
    let (found, _) = ranks(placed.view()?, Sweeps::BackAndForth, &killer)?;
    let before = match killer.killed.into_inner() {
        Some(Ok(faults)) => faults,
        Some(Err(error)) => return Err(error),
        None => bail!("PageRank had fewer than {KILLED_IN} iterations"),
    };
    stage.bury_agent()?;
    ensure!(found == expected, "the result differs from that in memory: {found:?}, not {expected:?}");
    let after = faults(&far.stats()) - before;
    ensure!(after > 0, "no page was fetched after the agent was killed");
    let text = format!(
        "killed in iteration {KILLED_IN}, after {before} page faults by the agent; {after} more were answered by the \
         memory server"
    );
    Ok(Finding::text(text)
        .gained("the same ranks, every bit; the program noticed nothing")
        .with("far_graph_faults_before_kill", before as f64)
        .with("far_graph_faults_after_kill", after as f64))
}

/// Said instead of a result where the kernel lets this user serve no page faults.
const NO_USERFAULTFD: &str =
    "left out: userfaultfd cannot be used here; `outboard doctor` says how to allow it";
/// The iteration in which the agent is killed, of ten.
const KILLED_IN: u32 = 4;

/// Kills the agent in the middle of a computation.
struct Killer<'a> {
    victim: Victim,
    far: &'a FarMemory,
    /// How many faults there were until then.
    killed: OnceLock<Result<u64>>,
}

impl StepProgress for Killer<'_> {
    fn step(&self, step: graph::Step) {
        if step.number == KILLED_IN {
            let faults = faults(&self.far.stats());
            self.killed.get_or_init(|| self.victim.kill().map(|()| faults));
        }
    }
}

/// Far memory with a buffer for a third of so many bytes; nothing where the kernel does not allow it.
fn connect(stage: &mut Stage, bytes: u64) -> Result<Option<FarMemory>> {
    let outboard = stage.outboard(By::Shm)?.with_agent(stage.agent_address()?);
    let options = FarOptions::default().with_buffer(BUFFER).with_footprint(bytes);
    match outboard.far_with(options) {
        Err(FarError::Paging(outboard::PagingError::NoUserfaultfd(_))) => Ok(None),
        other => Ok(Some(other?)),
    }
}

fn faults(stats: &FarStats) -> u64 {
    stats.faults_fetched + stats.faults_joined + stats.faults_rescued
}

fn fetched(stats: &FarStats) -> u64 {
    stats.traffic.demand + stats.traffic.ahead
}

/// The graph, and how many bytes it has.
fn view(rows: &Csr) -> Result<(GraphView<'_>, u64)> {
    let bytes = size_of_val(rows.offsets()) + size_of_val(rows.targets());
    Ok((GraphView::symmetric(CsrView::new(rows.offsets(), rows.targets())?), bytes as u64))
}

fn ranks(
    graph: GraphView<'_>,
    sweeps: Sweeps,
    progress: &dyn StepProgress,
) -> Result<(pagerank::PagerankSummary, Duration)> {
    let workers = Workers::new(2)?;
    let run = RunContext { workers: &workers, arrays: &Dram, progress, sweeps };
    let began = Instant::now();
    let ranks = pagerank::run(graph, pagerank::PagerankOptions::default(), &run)?;
    Ok((ranks.summary(), began.elapsed()))
}
