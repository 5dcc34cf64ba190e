//! Graphs to try, and what the applications come to on them in memory.

use std::path::Path;
use std::sync::OnceLock;

use outboard_graph::application::{ApplicationOptions, ApplicationSummary};
use outboard_graph::{Application, Arrays, CsrView, Dram, GraphView, RunContext, Sweeps, Workers, pagerank};
use outboard_graph_format::{Cleaning, GeneratorKind, GraphImage, Recipe, Skew};

/// More than there are processors, as is usual in far memory.
const THREADS: usize = 3;

/// What a graph must be like to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// An R-MAT graph of a few mebibytes.
    Small,
    /// Of which a third has room for some chunks of 1 MiB.
    Medium,
    /// Of which a tenth has room for the least of them.
    Large,
}

/// The rows of one direction.
struct Rows {
    offsets: Vec<u64>,
    targets: Vec<u32>,
}

/// A graph and what it comes to.
pub(crate) struct Sample {
    out: Rows,
    incoming: Option<Rows>,
    expected: Vec<ApplicationSummary>,
}

/// Runs everything that there is on a graph.
pub(crate) fn run_all<A: Arrays>(
    graph: GraphView<'_>,
    arrays: &A,
    sweeps: Sweeps,
) -> Vec<ApplicationSummary> {
    let workers = Workers::new(THREADS).unwrap();
    let run = RunContext { workers: &workers, arrays, progress: &(), sweeps };
    let options = ApplicationOptions {
        pagerank: pagerank::PagerankOptions { iterations: 2, ..pagerank::PagerankOptions::default() },
        ..ApplicationOptions::default()
    };
    let summary = |application: Application| application.run(graph, &options, &run).unwrap().summary();
    Application::ALL.into_iter().map(summary).collect()
}

impl Sample {
    /// The graph of this kind. It is made once.
    pub(crate) fn of(size: Size, is_symmetric: bool) -> &'static Self {
        static ALL: [OnceLock<Sample>; 6] = [const { OnceLock::new() }; 6];
        ALL[size as usize * 2 + usize::from(is_symmetric)].get_or_init(|| Self::make(size, is_symmetric))
    }

    fn make(size: Size, is_symmetric: bool) -> Self {
        let (out, incoming) = match size {
            Size::Small => recipe_rows(is_symmetric),
            Size::Medium => woven_rows(25 << 20, is_symmetric),
            Size::Large => woven_rows(41 << 20, is_symmetric),
        };
        let mut sample = Self { out, incoming, expected: Vec::new() };
        sample.expected = run_all(sample.view(), &Dram, Sweeps::Upwards);
        sample
    }

    pub(crate) fn view(&self) -> GraphView<'_> {
        let out = self.out.view();
        match &self.incoming {
            None => GraphView::symmetric(out),
            Some(incoming) => GraphView::directed(out, incoming.view()).unwrap(),
        }
    }

    /// What the applications come to.
    pub(crate) fn expected(&self) -> &[ApplicationSummary] {
        &self.expected
    }

    /// How many bytes its arrays have.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = [Some(&self.out), self.incoming.as_ref()].into_iter().flatten();
        rows.map(|rows| size_of_val(&rows.offsets[..]) + size_of_val(&rows.targets[..])).sum::<usize>() as u64
    }
}

impl Rows {
    fn view(&self) -> CsrView<'_> {
        CsrView::new(&self.offsets, &self.targets).unwrap()
    }
}

fn recipe(is_symmetric: bool) -> Recipe {
    let cleaning = Cleaning { both_directions: is_symmetric, ..Cleaning::default() };
    let kind = GeneratorKind::Rmat { skew: Skew::default(), permuted: true };
    Recipe { kind, scale: 14, degree: 24, seed: 7, cleaning }
}

fn recipe_rows(is_symmetric: bool) -> (Rows, Option<Rows>) {
    let graph = recipe(is_symmetric).make(&()).unwrap();
    let rows = |csr: &outboard_graph_format::Csr| Rows {
        offsets: csr.offsets().to_vec(),
        targets: csr.targets().to_vec(),
    };
    (rows(graph.out()), (!is_symmetric).then(|| rows(graph.incoming())))
}

/// Where the small graph lies as an image, by the name of its folder.
pub(crate) fn write_image(folder: &Path, is_symmetric: bool) -> String {
    let name = if is_symmetric { "symmetric.graph" } else { "directed.graph" };
    GraphImage::write(&recipe(is_symmetric).make(&()).unwrap(), folder.join(name)).unwrap();
    name.to_owned()
}

/// A graph of so many bytes that is quickly made, also without an optimising compiler: vertices that differ by a step
/// are neighbours, for many steps, unless a coin says that they are not.
fn woven_rows(bytes: usize, is_symmetric: bool) -> (Rows, Option<Rows>) {
    const VERTICES: u32 = 1 << 14;
    let edges = bytes / if is_symmetric { 4 } else { 8 };
    // Of four coins one forbids an edge.
    let steps = (edges / VERTICES as usize * 4 / 3) as u32;
    let rows = |whose_coin: fn(u32, u32) -> u32| {
        let mut rows = Rows { offsets: vec![0], targets: Vec::with_capacity(edges * 9 / 8) };
        for vertex in 0..VERTICES {
            for step in 1..=steps {
                let other = vertex ^ step;
                let coin = (whose_coin(vertex, other) ^ step).wrapping_mul(0x9e37_79b9) >> 30;
                if coin > 0 {
                    rows.targets.push(other);
                }
            }
            rows.offsets.push(rows.targets.len() as u64);
        }
        rows
    };
    match is_symmetric {
        true => (rows(u32::min), None),
        false => (rows(|vertex, _| vertex), Some(rows(|_, other| other))),
    }
}
