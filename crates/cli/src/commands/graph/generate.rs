//! `outboard graph generate`: graphs made up by chance.

use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use outboard_graph_format::{Cleaning, GeneratorKind, Recipe, SCALE_MAX, Skew};

use super::bar::Bar;
use super::output::Output;
use crate::failure::wrong_usage;

/// Make a graph by chance, the same one for the same numbers and seed
///
/// An R-MAT graph resembles a social network: few vertices have very many edges, most have few. In a uniform graph
/// both ends of an edge are any vertex.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard graph generate --scale 20 --degree 16 --symmetric social.graph
  outboard graph generate --kind uniform --scale 16 --seed 7 even.el")]
pub(super) struct Args {
    #[command(flatten)]
    output: Output,
    /// How edges are drawn
    #[arg(long, value_enum, default_value_t = KindName::Rmat)]
    kind: KindName,
    /// The graph has 2 to the power of this many vertices
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=i64::from(SCALE_MAX)))]
    scale: u32,
    /// So many edges are drawn for each vertex
    #[arg(long, default_value_t = 16)]
    degree: u32,
    /// Which of the many graphs with these numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Add every edge's way back
    #[arg(long)]
    symmetric: bool,
    /// Leave out self loops, and all but one of several equal edges
    #[arg(long)]
    simple: bool,
    /// Give the vertices of an R-MAT graph new numbers by chance; otherwise small ones have many edges
    #[arg(long)]
    permute: bool,
    /// The chances of three quarters of an R-MAT graph's matrix; the last quarter has the rest
    /// [default: 0.57,0.19,0.19]
    #[arg(long, value_name = "A,B,C", value_parser = skew)]
    skew: Option<Skew>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum KindName {
    Rmat,
    Uniform,
}

fn skew(text: &str) -> Result<Skew, String> {
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse()).collect();
    match numbers.as_deref() {
        Ok(&[a, b, c]) => {
            let skew = Skew { a, b, c };
            skew.check().map(|()| skew).map_err(|error| error.to_string())
        }
        _ => Err("expected three numbers with commas between them".to_owned()),
    }
}

/// Makes the graph and writes it.
pub(super) fn run(args: &Args) -> Result<()> {
    let began = Instant::now();
    let kind = match args.kind {
        KindName::Rmat => GeneratorKind::Rmat { skew: args.skew.unwrap_or_default(), permuted: args.permute },
        KindName::Uniform if args.permute || args.skew.is_some() => {
            return Err(wrong_usage("--permute and --skew are for R-MAT graphs, not for --kind uniform"));
        }
        KindName::Uniform => GeneratorKind::Uniform,
    };
    let target = args.output.open()?;
    let bar = Bar::new();
    let cleaning = Cleaning {
        both_directions: args.symmetric,
        drop_self_loops: args.simple,
        drop_duplicates: args.simple,
    };
    let recipe = Recipe { kind, scale: args.scale, degree: args.degree, seed: args.seed, cleaning };
    let graph = recipe.make(&bar).context("cannot make the graph")?;
    args.output.write(&target, &graph, Vec::new(), began, bar)
}
