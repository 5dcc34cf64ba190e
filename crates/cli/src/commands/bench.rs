//! `outboard bench`: how fast is it here, and beside what?

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use outboard_bench::{Effort, Options, PeerProgram};
use outboard_driver::raise_descriptor_limit;

use crate::terminal;

/// Measure, always beside a yardstick in the same run
///
/// Every figure is given with what it is compared with and the ratio of the two. Both do the same work by turns,
/// so that whatever else this machine does disturbs both; the best round of each counts.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard bench link                full measurement, a table for people
  outboard bench link --quick        the same figures within a minute
  outboard bench link --json         one JSON object for programs
  outboard bench daemon              what an idle agent uses, and how soon a client is served
  outboard bench paging              what a page fault costs
  outboard bench graph               graphs in far memory beside mapped files and plain memory
  outboard bench graph --quick       the same figures, each measured once on a smaller graph
  outboard bench routing             what a message between ranks costs
  outboard bench ebpf                what an eBPF function costs, beside rbpf and the same in Rust
  outboard bench calling             what calls of functions cost, beside Rust and memcached
  outboard bench steering            of it, whether calls leave a site whose core is taken
  outboard bench writing             does choosing the path of each remote write pay
  outboard bench writing --quick     the same figures with fewer writes, and fewer scaled models
  outboard bench cluster             what encryption and libfabric cost between machines")]
pub(crate) struct Args {
    /// What to measure
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(outboard_bench::NAMES))]
    name: String,
    /// Measure for a shorter time
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Draw a picture into this SVG file: applications with a third of their memory (graph), latency over the share of cold writes (writing), or which site answers calls over
    /// time while others take their cores (calling, steering)
    #[arg(long, value_name = "FILE")]
    plot: Option<std::path::PathBuf>,
    /// Only show that it works
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
}

/// Runs the benchmark and prints its report.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.plot.is_some() && !["graph", "writing", "calling", "steering"].contains(&args.name.as_str()) {
        anyhow::bail!(
            "only `outboard bench graph`, `writing`, `calling` and `steering` draw a picture; leave out --plot"
        );
    }
    // A crowd of clients needs more than the usual, in both processes.
    raise_descriptor_limit();
    let path = std::env::current_exe().context("cannot find this program to start its second process")?;
    let arguments = vec![super::bench_peer::NAME.to_owned()];
    let effort = match args {
        Args { tiny: true, .. } => Effort::Tiny,
        Args { quick: true, .. } => Effort::Quick,
        _ => Effort::Full,
    };
    let options = Options { effort, peer: PeerProgram { path, arguments }, plot: args.plot.clone() };
    let report = outboard_bench::run(&args.name, &options)
        .with_context(|| format!("the benchmark {} has no result", args.name))?;
    let text = if args.json { report.to_json() } else { report.to_string() };
    terminal::print(&text)
}
