//! One file per command.

mod bench;
mod bench_peer;
mod doctor;

use anyhow::Result;

/// What the program can do.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Bench(bench::Args),
    BenchPeer(bench_peer::Args),
    Doctor(doctor::Args),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Bench(args) => bench::run(&args),
            Self::BenchPeer(args) => bench_peer::run(&args),
            Self::Doctor(args) => doctor::run(&args),
        }
    }
}
