//! One file per command.

mod advise;
mod agent;
mod app;
mod app_rank;
mod bench;
mod bpf;
mod btree;
mod characterize;
mod completions;
mod demo;
mod doctor;
mod far;
mod functions;
mod graph;
mod keys;
mod kv;
mod man;
mod memory;
mod place;
mod run;
mod run_node;
mod status;
mod up;

use anyhow::Result;

/// The commands of the program.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Demo(demo::Args),
    Up(up::Args),
    Memory(memory::Args),
    Agent(agent::Args),
    Run(run::Args),
    RunNode(run_node::Args),
    Status(status::Args),
    Far(Box<far::Args>),
    Graph(graph::Args),
    Kv(kv::Args),
    Btree(btree::Args),
    Keys(keys::Args),
    App(app::Args),
    AppRank(app_rank::Args),
    Advise(advise::Args),
    Bpf(bpf::Args),
    Bench(outboard_measure::BenchArgs),
    Characterize(characterize::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// Does it.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Demo(args) => demo::run(&args),
            Self::Up(args) => up::run(&args),
            Self::Memory(args) => memory::run(&args),
            Self::Agent(args) => agent::run(&args),
            Self::Run(args) => run::run(&args),
            Self::RunNode(args) => run_node::run(&args),
            Self::Status(args) => status::run(&args),
            Self::Far(args) => far::run(&args),
            Self::Graph(args) => graph::run(&args),
            Self::Kv(args) => kv::run(&args),
            Self::Btree(args) => btree::run(&args),
            Self::Keys(args) => keys::run(&args),
            Self::App(args) => app::run(&args),
            Self::AppRank(args) => app_rank::run(&args),
            Self::Advise(args) => advise::run(&args),
            Self::Bpf(args) => bpf::run(&args),
            Self::Bench(_) => bench::run(),
            Self::Characterize(args) => characterize::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Completions(args) => completions::run(&args),
            Self::Man(args) => man::run(&args),
        }
    }
}
