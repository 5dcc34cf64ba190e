//! `outboard graph convert`: from one format to another.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use outboard_graph_format::{Cleaning, Format, load};

use super::bar::Bar;
use super::output::Output;

/// Convert a graph from one format to another
///
/// Weights are left out. Vertices are numbered from 0; those of a SNAP edge list get new numbers if there are gaps.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard graph convert web-Google.txt web.graph
  outboard graph convert roads.mtx roads.graph --symmetric --simple
  outboard graph convert --from ligra rMatGraph_J_5_100 small.sg
  zcat soc-LiveJournal1.txt.gz | outboard graph convert --from snap - journal.graph")]
pub(super) struct Args {
    /// The graph to convert; `-` is the standard input
    #[arg(value_name = "IN", value_parser = super::graph_file())]
    file: PathBuf,
    #[command(flatten)]
    output: Output,
    /// The format of IN, if the file does not tell
    #[arg(long, value_name = "FORMAT", value_parser = super::format())]
    from: Option<Format>,
    /// Add the way back of every edge that has none
    #[arg(long)]
    symmetric: bool,
    /// Leave out self loops, and all but one of several equal edges
    #[arg(long)]
    simple: bool,
}

/// Reads the one and writes the other.
pub(super) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    let target = args.output.open()?;
    let bar = Bar::new();
    let loaded = load(&args.file, args.from, &bar)?;
    let cleaning = Cleaning {
        both_directions: args.symmetric,
        drop_self_loops: args.simple,
        drop_duplicates: args.simple,
    };
    let graph = loaded.graph.cleaned(cleaning, &bar).context("cannot convert the graph")?;
    args.output.write(&target, &graph, loaded.notes, began, bar)
}
