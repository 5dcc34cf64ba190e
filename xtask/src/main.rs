//! Every habit of the project as a command: `cargo xtask test`, `ci`, `tidy`, `flows`, `bpf`, `header`, `library`, `fuzz`, `attack`, `simulate`, `mutants`, `loom`,
//! `miri`, `sanitize`, `nodes`, `deb`, `release`, `vm`.
//!
//! It shells out to cargo and links none of the workspace's crates, so it still runs when one of them does
//! not compile.
#![forbid(unsafe_code)]
// Talking to the terminal is what this program is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod attack;
mod bpf;
mod ci;
mod deb;
mod fuzz;
mod header;
mod library;
mod loom;
mod man;
mod miri;
mod mutants;
mod nodes;
mod process;
mod release;
mod sanitize;
mod setup;
mod simulate;
mod step;
mod tally;
mod test;
mod tidy;
mod vm;
mod workspace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::step::Outcome;
use crate::workspace::Workspace;

/// Every habit of the project as a command.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES)]
enum Command {
    Test(test::Args),
    Ci(ci::Args),
    /// Check the parts of our style that a program can check
    ///
    /// Dependency direction, the length of files and functions, banned calls, stray files, litter in lines,
    /// what every package must say of itself, dead links, the changelog. Errors have to be put right; notes
    /// tell of files and functions longer than we aim for.
    #[command(after_help = "Examples:
  cargo xtask tidy                        every finding as file:line, with what to do about it")]
    Tidy,
    /// Check that the flows in ARCHITECTURE.md are drawn as they are
    ///
    /// Every step names a file and a function that exist, follows from the step before, and a flow passes few files. Part of
    /// `tidy`; by itself it also shows how long each flow is.
    #[command(after_help = "Examples:
  cargo xtask flows                       steps, files and returns of each flow")]
    Flows,
    Bpf(bpf::Args),
    Header(header::Args),
    Library(library::Args),
    Fuzz(fuzz::Args),
    Attack(attack::Args),
    Simulate(simulate::Args),
    Mutants(mutants::Args),
    /// Model-check the lock-free code: all orders in which threads can meet
    ///
    /// Runs the tests in modules named `model` of every package that depends on loom.
    #[command(after_help = "Examples:
  cargo xtask loom                              as CI runs it, at most 3 preemptions per execution
  LOOM_MAX_PREEMPTIONS=5 cargo xtask loom       a wider and much slower search")]
    Loom,
    /// Run unit tests under Miri, which finds undefined behaviour
    ///
    /// Needs a nightly toolchain with miri; without one it says so and is skipped.
    #[command(after_help = "Examples:
  rustup +nightly component add miri      once
  cargo xtask miri                        the packages that Miri can run")]
    Miri,
    Sanitize(sanitize::Args),
    Nodes(nodes::Args),
    Deb(deb::Args),
    Release(release::Args),
    Vm(vm::Args),
}

const EXAMPLES: &str = "Examples:
  cargo xtask test                        whether it works here, within minutes
  cargo xtask test calling                all tests of one service
  cargo xtask ci                          everything CI runs, with a summary at the end
  cargo xtask ci --only clippy,tests      two of its steps
  cargo xtask fuzz --list                 the decoders that are fuzzed
  cargo xtask simulate --seed 7           replay one simulated run";

/// What can follow `cargo xtask`.
fn commands() -> Vec<String> {
    Command::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

fn main() -> ExitCode {
    let command = Command::parse();
    let outcome = Workspace::load().and_then(|workspace| match command {
        Command::Test(args) => test::run(&workspace, &args),
        Command::Ci(args) => ci::run(&workspace, &args),
        Command::Tidy => tidy::run(&workspace),
        Command::Flows => tidy::flows(&workspace),
        Command::Bpf(args) => bpf::run(&workspace, &args),
        Command::Header(args) => header::run(&workspace, &args),
        Command::Library(args) => library::run(&workspace, &args),
        Command::Fuzz(args) => fuzz::run(&workspace, &args),
        Command::Attack(args) => attack::run(&workspace, &args).map(|(outcome, _)| outcome),
        Command::Simulate(args) => simulate::run(&workspace, &args),
        Command::Mutants(args) => mutants::run(&workspace, &args).map(|(outcome, _)| outcome),
        Command::Loom => loom::run(&workspace).map(|(outcome, _)| outcome),
        Command::Miri => miri::run(&workspace).map(|(outcome, _)| outcome),
        Command::Sanitize(args) => sanitize::run(&workspace, &args).map(|(outcome, _)| outcome),
        Command::Deb(args) => deb::run(&workspace, &args),
        Command::Release(args) => release::run(&workspace, &args),
        Command::Nodes(args) => nodes::run(&workspace, &args).map(|(outcome, _)| outcome),
        Command::Vm(args) => vm::run(&workspace, &args).map(|(outcome, _)| outcome),
    });
    match outcome {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Skipped(reason)) => {
            eprintln!("skipped: {reason}");
            ExitCode::SUCCESS
        }
        // `ci` ends with its summary, which has to stay the last line.
        Ok(Outcome::Failed(reason)) if reason.is_empty() => ExitCode::FAILURE,
        Ok(Outcome::Failed(reason)) => {
            eprintln!("failed: {reason}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
