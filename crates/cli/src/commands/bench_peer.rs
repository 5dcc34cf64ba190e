//! `outboard bench-peer`: the second process of a benchmark, started by the first.

use anyhow::Result;

/// How the first process calls this command.
pub(super) const NAME: &str = "bench-peer";

/// Play the second process of a benchmark; started by `outboard bench`
#[derive(clap::Args)]
#[command(name = NAME, hide = true, after_help = "Examples:
  outboard bench link                starts this command by itself")]
pub(crate) struct Args {
    /// The question that is being answered
    question: String,
}

/// Does as the first process says until it has no more to say.
pub(crate) fn run(args: &Args) -> Result<()> {
    Ok(outboard_bench::serve(&args.question)?)
}
