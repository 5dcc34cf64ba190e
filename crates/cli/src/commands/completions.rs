//! `outboard completions`: what a shell needs to complete our command lines.

use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::{CommandLine, terminal};

/// Print what a shell needs to complete command lines
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard completions bash >> ~/.bashrc
  outboard completions zsh | install -D /dev/stdin ~/.zfunc/_outboard     with ~/.zfunc in fpath
  outboard completions fish | install -D /dev/stdin ~/.config/fish/completions/outboard.fish")]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut for_people(), "outboard", &mut script);
    terminal::print(String::from_utf8_lossy(&script).trim_end())
}

/// The program without the commands that it only calls itself.
fn for_people() -> Command {
    let whole = CommandLine::command();
    let commands = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    Command::new("outboard").version(env!("CARGO_PKG_VERSION")).subcommands(commands)
}
