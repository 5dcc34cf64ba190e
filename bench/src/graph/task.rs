//! One run of one application, in a process of its own.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use outboard::{Address, BufferSize, CacheMode, FarOptions, Outboard, Path, RegionTraffic};
use outboard_graph::application::ApplicationOptions;
use outboard_graph::far::{FarGraph, FarLayout};
use outboard_graph::{Application, CsrView, Dram, GraphView, RunContext, Sweeps, Workers, pagerank};
use outboard_graph_format::GraphImage;
use serde::{Deserialize, Serialize};

use super::mapped::MappedRows;
use crate::BenchError;
use crate::pair::Control;

/// What the second process is told to play.
pub(super) const PART: &str = "graph.application";

/// Where the arrays of the graph lie.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Place {
    /// In the memory of the process.
    Dram,
    /// In files mapped into it.
    Mapped {
        /// Whether the kernel is told that there is no order.
        random: bool,
        /// Whether passes go back and forth.
        back_and_forth: bool,
    },
    /// At a memory server.
    Far(Far),
}

/// How far memory is to be used.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Far {
    pub(super) server: String,
    pub(super) agent: Option<String>,
    pub(super) path: FarPath,
    pub(super) cache: Cache,
    pub(super) wire: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FarPath {
    Direct,
    Agent,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Cache {
    Off,
    Static,
    Dynamic,
    Auto,
}

/// What to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) application: String,
    /// The folder of the image, and its name below the server's data directory.
    pub(super) image: PathBuf,
    pub(super) served: String,
    pub(super) place: Place,
    pub(super) threads: usize,
    pub(super) iterations: u32,
    /// How often it is done; the last time counts, or all if it is a background.
    pub(super) rounds: u32,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) seconds: f64,
    pub(super) checksum: u64,
    /// Bytes that came straight from the server, of offsets and of neighbours.
    pub(super) direct: [u64; 2],
    /// Bytes that came from or by the agent.
    pub(super) by_agent: [u64; 2],
    pub(super) hits: u64,
    pub(super) late: u64,
    pub(super) misses: u64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Done(Outcome),
    Failed { why: String },
}

/// The second process: does one task and ends.
pub(super) fn serve(control: &Control) -> Result<(), BenchError> {
    let task: Task = control.receive("a task")?;
    let answer = match task.perform() {
        Ok(outcome) => Answer::Done(outcome),
        Err(error) => Answer::Failed { why: crate::error::chain(&error) },
    };
    control.send(&answer)
}

fn failed(error: impl std::error::Error) -> BenchError {
    BenchError::PeerFailed { why: crate::error::chain(&error) }
}

impl Task {
    fn perform(&self) -> Result<Outcome, BenchError> {
        let image = GraphImage::open(&self.image).map_err(failed)?;
        match &self.place {
            Place::Dram => {
                let graph = image.read().map_err(failed)?;
                let rows = |csr| -> Result<_, BenchError> {
                    let csr: &outboard_graph_format::Csr = csr;
                    CsrView::new(csr.offsets(), csr.targets()).map_err(failed)
                };
                let view = if graph.is_symmetric() {
                    GraphView::symmetric(rows(graph.out())?)
                } else {
                    GraphView::directed(rows(graph.out())?, rows(graph.incoming())?).map_err(failed)?
                };
                self.measure(view, Sweeps::Upwards)
            }
            Place::Mapped { random, back_and_forth } => {
                let out = MappedRows::open(&image, "out", *random)?;
                let sweeps = if *back_and_forth { Sweeps::BackAndForth } else { Sweeps::Upwards };
                if image.is_symmetric() {
                    return self.measure(GraphView::symmetric(out.view()?), sweeps);
                }
                let incoming = MappedRows::open(&image, "in", *random)?;
                let view = GraphView::directed(out.view()?, incoming.view()?).map_err(failed)?;
                self.measure(view, sweeps)
            }
            Place::Far(far) => self.perform_far(far, &image),
        }
    }

    fn perform_far(&self, far: &Far, image: &GraphImage) -> Result<Outcome, BenchError> {
        let footprint = image.arrays().iter().map(|array| array.bytes()).sum();
        let address = |text: &str| text.parse::<Address>().map_err(failed);
        let mut outboard = Outboard::at(address(&far.server)?);
        if let Some(agent) = &far.agent {
            outboard = outboard.with_agent(address(agent)?);
        }
        let third = BufferSize::Fraction { numerator: 1, denominator: 3 };
        let mut options = FarOptions::default().with_buffer(third).with_footprint(footprint);
        options.chunk = FarLayout::chunk_for(options.buffer.of(footprint));
        let chunk = options.chunk;
        options.ahead = FarLayout::ahead_for(chunk);
        options.wire = far.wire.as_deref().map(|wire| wire.parse().map_err(failed)).transpose()?;
        let memory = outboard.far_with(options)?;
        let placement = FarLayout {
            chunk,
            path: match far.path {
                FarPath::Direct => Path::Direct,
                FarPath::Agent => Path::Agent,
                FarPath::Auto => Path::Auto,
            },
            ..FarLayout::cached(match far.cache {
                Cache::Off => CacheMode::Off,
                Cache::Static => CacheMode::Static,
                Cache::Dynamic => CacheMode::Dynamic,
                Cache::Auto => CacheMode::Auto,
            })
        };
        let graph = FarGraph::open(&memory, &self.served, image.is_symmetric(), &placement)?;
        if far.agent.is_some() {
            memory.wait_for_agent(Duration::from_secs(20));
        }
        let mut outcome = self.measure(graph.view().map_err(failed)?, Sweeps::BackAndForth)?;
        let traffic = graph.traffic();
        let stats = memory.stats();
        outcome.direct = traffic.map(|part: RegionTraffic| part.direct);
        outcome.by_agent = traffic.map(|part| part.by_agent + part.by_copy);
        (outcome.hits, outcome.late, outcome.misses) =
            (stats.agent_hits, stats.agent_late, stats.agent_misses);
        Ok(outcome)
    }

    fn measure(&self, graph: GraphView<'_>, sweeps: Sweeps) -> Result<Outcome, BenchError> {
        let application: Application = self.application.parse().map_err(failed)?;
        let workers = Workers::new(self.threads).map_err(failed)?;
        let options = ApplicationOptions {
            pagerank: pagerank::PagerankOptions { iterations: self.iterations, ..Default::default() },
            ..Default::default()
        };
        let run = RunContext { workers: &workers, arrays: &Dram, progress: &(), sweeps };
        let mut outcome = Outcome::default();
        for _ in 0..self.rounds.max(1) {
            let began = Instant::now();
            let result = application.run(graph, &options, &run).map_err(failed)?;
            outcome.seconds = began.elapsed().as_secs_f64();
            outcome.checksum = result.summary().checksum();
        }
        Ok(outcome)
    }
}
