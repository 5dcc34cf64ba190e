//! The program `outboard`: reads the command line and hands over to the rooms. It computes nothing itself.
#![forbid(unsafe_code)]
// Talking to the terminal is what this program is for.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod children;
mod commands;
mod config_flags;
mod daemon_ready;
mod failure;
mod log;
mod numbers;
mod ranks;
mod serve;
mod survey;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Command;

/// Moves the work of communication off the processor that computes, and back when that pays
#[derive(Parser)]
#[command(name = "outboard", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  outboard demo                      a whole cluster at work on this machine, in a few seconds
  outboard up                        a local cluster to work with, until Ctrl-C
  outboard run -n 4 -- ./program     a program as four ranks
  outboard far -- ./program          any program, with most of its memory far
  outboard app histogram -n 2        an application made of small messages
  outboard advise -- ./program        who should move a program's messages
  outboard status --watch            what the daemons are doing
  outboard keys init                 by what the machines of a cluster know each other
  outboard doctor                    what this machine can do, and how to mend the rest
  outboard bpf check function.o      what is proven about an eBPF function, and what is checked
  outboard bench link --quick        what the links cost on this machine, within a minute
  outboard help run                  more about one command

Exit codes: 0 done, 1 failed, 2 wrong usage";

fn main() -> ExitCode {
    match CommandLine::try_parse() {
        Ok(outboard) => {
            let ended = outboard.command.run();
            config_flags::warn_unless_warned();
            log::finish();
            ended.map_or_else(|error| failure::report(&error), |()| ExitCode::SUCCESS)
        }
        Err(usage) => failure::usage(&usage),
    }
}
