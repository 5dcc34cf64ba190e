//! `outboard graph run`: an application on a graph.

mod far;
mod report;
mod values;
mod watcher;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use outboard_graph::application::{ApplicationOptions, ApplicationSummary};
use outboard_graph::{
    Application, Arrays, CsrView, Dram, GraphView, RunContext, RunError, Sweeps, ViewError, Workers, pagerank,
};
use outboard_graph_format::{Csr, Format, Graph, load};
use outboard_limits::ProcessorLimits;
use outboard_settings::{Configuration, Entry, Origin};

use self::report::Report;
use self::values::ValuesFile;
use self::watcher::Watcher;
use super::bar::Bar;
use crate::config_flags::{About, ConfigFlags};
use crate::failure::wrong_usage;
use crate::terminal;

const EXAMPLES_FIRST: &str = "Examples:
  outboard graph run pagerank --graph web.graph
  outboard graph run bfs --graph social.graph --source 17 --threads 8
  outboard graph run pagerank --graph web.graph --memory far --buffer 1/3 --cache static

All flags and examples: outboard graph run --help";

const EXAMPLES: &str = "Applications:
  bfs         how many edges it takes from one vertex to the others
  pagerank    how likely a random walk is at each vertex
  radii       how far vertices are from the farthest of 64 others: the least that the diameter can be
  bc          betweenness: how many shortest paths from one vertex lead through each
  components  which vertices hang together, whatever the direction of edges

Examples:
  outboard graph run pagerank --graph web.graph
  outboard graph run bfs --graph social.graph --source 17 --threads 8
  outboard graph run components --graph web-Google.txt --json
  outboard graph run pagerank --graph web.graph --output ranks.npy
  outboard graph run bfs --graph web.graph --repeat 5
  outboard graph run pagerank --graph web.graph --memory far --buffer 1/3 --cache static
  outboard graph run bfs --memory far --server tcp:192.0.2.7:7000 --served web.graph";

/// Run an application on a graph
///
/// The result is the same, bit for bit, whatever the number of threads: runs can be compared by their checksums.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES_FIRST, after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// What to compute
    #[arg(value_name = "APP", value_parser = application())]
    application: Application,
    /// The graph, in any format; `-` is the standard input
    #[arg(long, value_name = "FILE", required_unless_present = "served", value_parser = super::graph_file())]
    graph: Option<PathBuf>,
    /// Its format, if the file does not tell
    #[arg(long, value_name = "FORMAT", value_parser = super::format(), hide_short_help = true)]
    from: Option<Format>,
    /// Where the graph lies
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
    /// Compute so many times on the same graph; the median time is told, with the shortest and the longest
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// Write one value per vertex to this file: an array of NumPy if its name ends in .npy, else a line per vertex; `-` is the
    /// standard output, in place of the report
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file of --output if it exists
    #[arg(long, requires = "output", hide_short_help = true)]
    force: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    far: far::Flags,
    #[command(flatten)]
    config: ConfigFlags<AboutRun>,
}

/// Flags for daemons that are started for a run.
struct AboutRun;

impl About for AboutRun {
    const SECTION: &'static str = "";
    const OTHERS: &'static [&'static str] = &["far", "memory", "agent", "link", "log"];
    const DECIDED: &'static [&'static str] = &[
        "far.servers",
        "far.buffer",
        "far.chunk",
        "far.path",
        "far.cache",
        "far.threads",
        "memory.name",
        "memory.listen",
        "memory.data_dir",
        "agent.name",
        "agent.listen",
        "agent.memory_servers",
        "agent.peers",
        "agent.wire",
        "agent.dial_wire",
    ];
}

/// A place for arrays.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Memory {
    /// The memory of this process
    Dram,
    /// A memory server's memory, of which a part is here at a time
    Far,
}

fn application() -> impl TypedValueParser<Value = Application> {
    PossibleValuesParser::new(Application::ALL.map(Application::name))
        .try_map(|name| name.parse::<Application>())
}

/// The application's arguments, and where its values go.
type Wanted<'a> = (&'a ApplicationOptions, Option<&'a ValuesFile>);

/// The result of a run.
struct Measured {
    summary: ApplicationSummary,
    /// How long it took, each time, the shortest first.
    times: Vec<Duration>,
    edges_walked: u64,
}

impl Measured {
    /// The median of its times.
    fn took(&self) -> Duration {
        self.times[self.times.len() / 2]
    }
}

/// Gets the graph, computes, and says what came out.
pub(super) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let options = args.options()?;
    let values = args.output.as_deref().map(|path| ValuesFile::open(path, args.force)).transpose()?;
    if args.json && values.as_ref().is_some_and(ValuesFile::is_standard_output) {
        return Err(wrong_usage(
            "--output - and --json both want the standard output; write the values to a file",
        ));
    }
    let text = match args.memory {
        Memory::Dram => {
            refuse_far_settings(args, &configuration)?;
            run_in_dram(args, &options, values.as_ref())?
        }
        Memory::Far => {
            far::run(args, (&options, values.as_ref()), &Workers::new(args.threads())?, &configuration)?
        }
    };
    if values.is_some_and(|values| values.is_standard_output()) {
        return Ok(());
    }
    terminal::print(&text)
}

/// Flags of far memory have no effect without it.
fn refuse_far_settings(args: &Args, configuration: &Configuration) -> Result<()> {
    let is_far = |entry: &&Entry| matches!(entry.key.section, "far" | "memory" | "agent");
    let set = configuration.entries().iter().filter(is_far).find_map(|entry| match &entry.origin {
        Origin::Flag(flag) => Some(flag.as_str()),
        _ => None,
    });
    match args.far.first_given().or(set) {
        Some(flag) => Err(wrong_usage(&format!("{flag} is for --memory far"))),
        None => Ok(()),
    }
}

fn run_in_dram(args: &Args, options: &ApplicationOptions, values: Option<&ValuesFile>) -> Result<String> {
    let graph = args.graph.as_deref().ok_or_else(|| wrong_usage("name a graph with --graph"))?;
    let workers = Workers::new(args.threads())?;
    let began = Instant::now();
    let bar = Bar::new();
    let loaded = load(graph, args.from, &bar)?;
    drop(bar);
    let loading = began.elapsed();
    let graph = view(&loaded.graph)?;
    let run = RunContext { workers: &workers, arrays: &Dram, progress: &(), sweeps: Sweeps::Upwards };
    let measured = args.measure(graph, (options, values), run, || {})?;
    let report = Report {
        application: args.application,
        file: args.file(),
        format: loaded.format,
        graph,
        memory: "dram",
        threads: workers.threads(),
        loading,
        notes: &loaded.notes,
        measured: &measured,
        far: None,
    };
    if args.json { Ok(report.json()?.to_string()) } else { Ok(report.table()) }
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
        let processors = || ProcessorLimits::of_this_process().threads();
        self.threads.map_or_else(processors, usize::from)
    }

    /// The name of the graph.
    fn file(&self) -> String {
        let file = self.graph.as_ref().map(|graph| graph.display().to_string());
        file.or_else(|| self.far.served.clone()).unwrap_or_default()
    }

    fn options(&self) -> Result<ApplicationOptions> {
        if self.iterations.is_some() && self.application != Application::Pagerank {
            return Err(wrong_usage("--iterations is for pagerank"));
        }
        let has_source = matches!(self.application, Application::Bfs | Application::Betweenness);
        if self.source.is_some() && !has_source {
            // The result is the same for those who do not read the standard error.
            let name = self.application.name();
            let _ = writeln!(
                std::io::stderr(),
                "outboard: note: {name} begins at no vertex; --source is ignored"
            );
        }
        let mut pagerank = pagerank::PagerankOptions::default();
        pagerank.iterations = self.iterations.unwrap_or(pagerank.iterations);
        Ok(ApplicationOptions { source: self.source, pagerank, ..ApplicationOptions::default() })
    }

    /// Makes sure that paths can begin where they should, before a large graph is moved for them.
    fn require_source(&self, vertices: u64) -> Result<()> {
        match self.source {
            Some(vertex) if u64::from(vertex) >= vertices => {
                let vertices = usize::try_from(vertices).unwrap_or(usize::MAX);
                Err(RunError::NoSuchVertex { vertex, vertices }).with_context(|| self.cannot())
            }
            _ => Ok(()),
        }
    }

    fn cannot(&self) -> String {
        format!("cannot run {} on {}", self.application.name(), self.file())
    }

    /// Computes on a graph, wherever it lies, with state of vertices in the given kind of memory, and writes the values if
    /// they are wanted. `note` is called when the last result is there, before it is looked at.
    fn measure<A: Arrays>(
        &self,
        graph: GraphView<'_>,
        (options, values): Wanted<'_>,
        run: RunContext<'_, A>,
        note: impl FnOnce(),
    ) -> Result<Measured> {
        let mut times = Vec::new();
        let watcher = Watcher::new();
        let run = RunContext { progress: &watcher, ..run };
        let outcome = loop {
            let began = Instant::now();
            let outcome = self.application.run(graph, options, &run).with_context(|| self.cannot());
            times.push(began.elapsed());
            if outcome.is_err() || times.len() == usize::from(self.repeat) {
                break outcome;
            }
        };
        note();
        let edges_walked = watcher.end() / times.len() as u64;
        let outcome = outcome?;
        if let Some(values) = values {
            values.write(&outcome)?;
        }
        times.sort_unstable();
        Ok(Measured { summary: outcome.summary(), times, edges_walked })
    }
}
