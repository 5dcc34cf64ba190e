//! The command line of the benchmarks: `outboard` reads it, and hands it to the program `outboard-bench`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;

use crate::Effort;

/// The benchmarks there are.
pub const BENCHMARKS: &[&str] = &[
    "link",
    "daemon",
    "paging",
    "far",
    "graph",
    "routing",
    "ebpf",
    "writing",
    "calling",
    "steering",
    "cluster",
    "protection",
    "python",
];

/// Measure, always beside a yardstick in the same run
///
/// Every figure is given with what it is compared with and the ratio of the two. Both do the same work by turns,
/// so that whatever else this machine does disturbs both; the best round of each counts.
///
/// The benchmarks are a program of their own, `outboard-bench`, which lies beside `outboard`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard bench link                full measurement, a table for people
  outboard bench link --quick        the same figures within a minute
  outboard bench link --json         one JSON object for programs
  outboard bench daemon              what an idle agent uses, and how soon a client is served
  outboard bench paging              what a page fault costs
  outboard bench far                 programs in far memory beside plain memory, swap and zram
  outboard bench graph               graphs in far memory beside mapped files and plain memory
  outboard bench graph --quick       the same figures, each measured once on a smaller graph
  outboard bench routing             what a message between ranks costs
  outboard bench ebpf                what an eBPF function costs, beside rbpf and the same in Rust
  outboard bench calling             what calls of functions cost, beside Rust and memcached
  outboard bench steering            of it, whether calls leave a site whose core is taken
  outboard bench writing             does choosing the path of each remote write pay
  outboard bench writing --quick     the same figures with fewer writes, and fewer scaled models
  outboard bench protection          how soon a killed server is back with its regions
  outboard bench cluster             what encryption and libfabric cost between machines
  outboard bench python --quick      the Python package beside Rust and numpy.memmap")]
pub struct BenchArgs {
    /// What to measure
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(BENCHMARKS))]
    pub name: String,
    /// Measure for a shorter time
    #[arg(long)]
    quick: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Draw a picture into this SVG file: applications with a third of their memory (graph), latency over the share of cold writes (writing), or which site answers calls over
    /// time while others take their cores (calling, steering)
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Play this recording, which far.record has written, in place of the programs: how many chunks far memory would
    /// fetch with room for a third of them, over what a pager fetches that knows the future (far)
    #[arg(long, value_name = "FILE")]
    pub play: Option<PathBuf>,
    /// Also compare with the GAP benchmark suite, whose source lies in this folder: it is compiled with c++ (graph)
    #[arg(long, value_name = "DIR")]
    pub gap: Option<PathBuf>,
    /// Only show that it works
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
}

impl BenchArgs {
    /// How long to measure.
    pub fn effort(&self) -> Effort {
        match self {
            Self { tiny: true, .. } => Effort::Tiny,
            Self { quick: true, .. } => Effort::Quick,
            _ => Effort::Full,
        }
    }
}
