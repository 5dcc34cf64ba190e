//! `outboard graph info`: what is in a file?

use std::path::PathBuf;

use anyhow::Result;
use outboard_graph_format::{Format, load};

use super::bar::Bar;
use super::summary::Summary;
use crate::terminal;

/// Say what graph is in a file
///
/// The whole file is read and checked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard graph info web.graph
  outboard graph info road.mtx --json")]
pub(super) struct Args {
    /// The graph; `-` is the standard input
    #[arg(value_name = "FILE", value_parser = super::graph_file())]
    file: PathBuf,
    /// Its format, if the file does not tell
    #[arg(long, value_name = "FORMAT", value_parser = super::format())]
    from: Option<Format>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Reads it and says what it is.
pub(super) fn run(args: &Args) -> Result<()> {
    let bar = Bar::new();
    let loaded = load(&args.file, args.from, &bar)?;
    drop(bar);
    let (graph, path, notes) = (&loaded.graph, args.file.as_path(), loaded.notes.as_slice());
    let summary = Summary { graph, path, format: loaded.format, notes };
    terminal::print(&if args.json { summary.json().to_string() } else { summary.table() })
}
