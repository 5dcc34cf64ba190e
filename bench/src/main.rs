//! The program `outboard-bench`: runs one benchmark and prints its report. `outboard bench` starts it.

#![forbid(unsafe_code)]
// Talking to the terminal is what this program is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use outboard_bench::{BenchOptions, PeerProgram};
use outboard_driver::raise_descriptor_limit;
use outboard_measure::BenchArgs;

#[derive(Parser)]
#[command(
    name = "outboard-bench",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Program {
    #[command(flatten)]
    bench: Option<BenchArgs>,
    #[command(subcommand)]
    part: Option<Part>,
}

#[derive(Subcommand)]
enum Part {
    /// Play the second process of a benchmark; the first one starts it
    #[command(hide = true)]
    Peer {
        /// The question that is being answered
        question: String,
    },
}

fn main() -> ExitCode {
    let ended = match Program::parse() {
        Program { part: Some(Part::Peer { question }), .. } => {
            outboard_bench::serve(&question).map_err(Into::into)
        }
        Program { bench: Some(args), .. } => run(&args),
        // The parser asks for one of the two.
        Program { .. } => Ok(()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // As `outboard` would say it, which has started this.
            eprintln!("outboard: {}", outboard_wire::with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &BenchArgs) -> Result<()> {
    if args.plot.is_some() && !["graph", "writing", "calling", "steering"].contains(&args.name.as_str()) {
        anyhow::bail!(
            "only `outboard bench graph`, `writing`, `calling` and `steering` draw a picture; leave out --plot"
        );
    }
    if args.play.is_some() && args.name != "far" {
        anyhow::bail!("only `outboard bench far` plays what far memory has recorded; leave out --play");
    }
    if args.gap.is_some() && args.name != "graph" {
        anyhow::bail!("only `outboard bench graph` compares with GAP; leave out --gap");
    }
    // A crowd of clients needs more than the usual, in both processes.
    raise_descriptor_limit();
    let path = std::env::current_exe().context("cannot find this program to start its second process")?;
    let peer = PeerProgram { path, arguments: vec!["peer".to_owned()] };
    let options = BenchOptions {
        effort: args.effort(),
        peer,
        plot: args.plot.clone(),
        play: args.play.clone(),
        gap: args.gap.clone(),
    };
    let report = outboard_bench::run(&args.name, &options)
        .with_context(|| format!("the benchmark {} has no result", args.name))?;
    let text = if args.json { report.to_json() } else { report.to_string() };
    // A reader that has gone has seen enough.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}
