//! `outboard graph run`: an application on a graph.

mod report;
mod watcher;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use outboard_graph::application::{Options, Summary};
use outboard_graph::{
    Application, Arrays, CsrView, Dram, GraphView, Run, Sweeps, ViewError, Workers, pagerank,
};
use outboard_graph_format::{Csr, Format, Graph, load};

use self::report::Report;
use self::watcher::Watcher;
use super::bar::Bar;
use crate::failure::wrong_usage;
use crate::terminal;

/// Run an application on a graph
///
/// The result is the same, bit for bit, whatever the number of threads: runs can be compared by their checksums.
#[derive(clap::Args)]
#[command(after_help = "Applications:
  bfs         how many edges it takes from one vertex to the others
  pagerank    how likely a random walk is at each vertex
  radii       how far vertices are from the farthest of 64 others: the least that the diameter can be
  bc          betweenness: how many shortest paths from one vertex lead through each
  components  which vertices hang together, whatever the direction of edges

Examples:
  outboard graph run pagerank --graph web.graph
  outboard graph run bfs --graph social.graph --source 17 --threads 8
  outboard graph run components --graph web-Google.txt --json")]
pub(super) struct Args {
    /// What to compute
    #[arg(value_name = "APP", value_parser = application())]
    application: Application,
    /// The graph, in any format
    #[arg(long, value_name = "FILE")]
    graph: PathBuf,
    /// Its format, if the file does not tell
    #[arg(long, value_name = "FORMAT", value_parser = super::format())]
    from: Option<Format>,
    /// Where the graph and the state of its vertices lie
    #[arg(long, value_enum, default_value_t = Memory::Dram)]
    memory: Memory,
    /// How many threads walk the graph [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=Workers::MOST as i64))]
    threads: Option<u16>,
    /// How often ranks are computed from the previous ones [default: 10]
    #[arg(long, value_name = "N")]
    iterations: Option<u32>,
    /// Where paths begin, for bfs and bc [default: the first vertex with an edge]
    #[arg(long, value_name = "VERTEX")]
    source: Option<u32>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// A place for arrays.
#[derive(Clone, Copy, ValueEnum)]
enum Memory {
    /// The memory of this process
    Dram,
}

fn application() -> impl TypedValueParser<Value = Application> {
    PossibleValuesParser::new(Application::ALL.map(Application::name))
        .try_map(|name| name.parse::<Application>())
}

/// What a run came to.
struct Measured {
    summary: Summary,
    took: Duration,
    edges_walked: u64,
}

/// Gets the graph, computes, and says what came out.
pub(super) fn run(args: &Args) -> Result<()> {
    let options = args.options()?;
    let workers = Workers::new(args.threads())?;
    match args.memory {
        Memory::Dram => {
            let began = Instant::now();
            let bar = Bar::new();
            let loaded = load(&args.graph, args.from, &bar)?;
            drop(bar);
            let loading = began.elapsed();
            let graph = view(&loaded.graph)?;
            let measured = args.measure(graph, &options, &workers, &Dram, Sweeps::Upwards)?;
            let report = Report {
                application: args.application,
                file: &args.graph,
                format: loaded.format,
                graph,
                memory: "dram",
                threads: workers.threads(),
                loading,
                notes: &loaded.notes,
                measured: &measured,
            };
            terminal::print(&if args.json { report.json()?.to_string() } else { report.table() })
        }
    }
}

fn view(graph: &Graph) -> Result<GraphView<'_>, ViewError> {
    fn rows(csr: &Csr) -> Result<CsrView<'_>, ViewError> {
        CsrView::new(csr.offsets(), csr.targets())
    }
    let out = rows(graph.out())?;
    if graph.is_symmetric() {
        Ok(GraphView::symmetric(out))
    } else {
        GraphView::directed(out, rows(graph.incoming())?)
    }
}

impl Args {
    fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.map_or_else(processors, usize::from)
    }

    fn options(&self) -> Result<Options> {
        if self.iterations.is_some() && self.application != Application::Pagerank {
            return Err(wrong_usage("--iterations is for pagerank"));
        }
        let has_source = matches!(self.application, Application::Bfs | Application::Betweenness);
        if self.source.is_some() && !has_source {
            return Err(wrong_usage("--source is for bfs and bc"));
        }
        let mut pagerank = pagerank::Options::default();
        pagerank.iterations = self.iterations.unwrap_or(pagerank.iterations);
        Ok(Options { source: self.source, pagerank, ..Options::default() })
    }

    /// Computes on a graph, wherever it lies, with state of vertices in the given kind of memory.
    fn measure<A: Arrays>(
        &self,
        graph: GraphView<'_>,
        options: &Options,
        workers: &Workers,
        arrays: &A,
        sweeps: Sweeps,
    ) -> Result<Measured> {
        let watcher = Watcher::new();
        let run = Run { workers, arrays, progress: &watcher, sweeps };
        let began = Instant::now();
        let outcome = self.application.run(graph, options, &run);
        let took = began.elapsed();
        let edges_walked = watcher.end();
        let outcome = outcome
            .with_context(|| format!("cannot run {} on {}", self.application.name(), self.graph.display()))?;
        Ok(Measured { summary: outcome.summary(), took, edges_walked })
    }
}
