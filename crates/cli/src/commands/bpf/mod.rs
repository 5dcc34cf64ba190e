//! `outboard bpf`: functions that travel, looked at and tried on this machine.

mod asm;
mod check;
mod disasm;
mod run;
mod site;
mod source;

use anyhow::Result;

/// Check eBPF functions, run them, and turn them into text and back
///
/// A program is an object of `clang -target bpf`, a text, or instructions as bytes or in hex; its first bytes tell
/// which. Programs may call the helpers of every site. `run` answers outboard_log, outboard_time and outboard_random; for
/// others, such as region_read, give an answer with --helper.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard bpf check sum.o                          what is proven, what is checked, the fuel
  outboard bpf run sum.o --memory 010203            a function on three bytes, result in hex
  outboard bpf disasm sum.o > sum.asm               an object as text
  outboard bpf asm sum.asm                          a text as instructions, in hex")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Check(check::Args),
    Run(run::Args),
    Disasm(disasm::Args),
    Asm(asm::Args),
}

/// Does what was asked.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Check(args) => check::run(args),
        Command::Run(args) => run::run(args),
        Command::Disasm(args) => disasm::run(args),
        Command::Asm(args) => asm::run(args),
    }
}
