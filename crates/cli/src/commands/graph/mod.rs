//! `outboard graph`: graphs made, converted, looked at and computed on.

mod bar;
mod convert;
mod generate;
mod info;
mod output;
mod run;
mod summary;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use outboard_graph_format::Format;

/// Make graphs, convert them between formats, look at them, and compute on them
///
/// A graph image (NAME.graph) is the format of this program: a folder with one file for each array, which a memory
/// server can load as it is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard graph generate --scale 20 --symmetric social.graph    a graph like a social network
  outboard graph convert web-Google.txt web.graph                an edge list as a graph image
  outboard graph info web.graph                                  what is in it
  outboard graph run pagerank --graph web.graph                  which vertices matter

Formats, told by a file's first bytes or name, or by --from and --to:
  image          graph image of this program          NAME.graph
  snap           edge list with comments (SNAP)       .txt .snap
  matrix-market  Matrix Market coordinates            .mtx
  ligra          Ligra adjacency graph, text          .adj
  ligra-binary   Ligra adjacency graph, three files   .config .idx .adj
  el             edge list, weighted or not (GAP)     .el .wel
  sg             serialised graph (GAP)               .sg")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Generate(generate::Args),
    Convert(convert::Args),
    Info(info::Args),
    Run(Box<run::Args>),
}

/// Does what was asked.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Generate(args) => generate::run(args),
        Command::Convert(args) => convert::run(args),
        Command::Info(args) => info::run(args),
        Command::Run(args) => run::run(args),
    }
}

/// Reads the name of a graph's file; `-` is the standard input.
fn graph_file() -> impl TypedValueParser<Value = PathBuf> {
    clap::builder::PathBufValueParser::new().map(|path| match path == Path::new("-") {
        true => PathBuf::from("/dev/stdin"),
        false => path,
    })
}

/// Reads the name of a format.
fn format() -> impl TypedValueParser<Value = Format> {
    let names = Format::ALL.iter().map(|format| format.name());
    PossibleValuesParser::new(names)
        .try_map(|name| Format::by_name(&name).ok_or("there is no format of this name"))
}
