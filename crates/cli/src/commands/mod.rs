//! One file per command.

mod agent;
mod bench;
mod bench_peer;
mod doctor;
mod memory;
mod run;
mod status;

use anyhow::Result;

/// What the program can do.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Memory(memory::Args),
    Agent(agent::Args),
    Run(run::Args),
    Status(status::Args),
    Bench(bench::Args),
    BenchPeer(bench_peer::Args),
    Doctor(doctor::Args),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Memory(args) => memory::run(&args),
            Self::Agent(args) => agent::run(&args),
            Self::Run(args) => run::run(&args),
            Self::Status(args) => status::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::BenchPeer(args) => bench_peer::run(&args),
            Self::Doctor(args) => doctor::run(&args),
        }
    }
}
