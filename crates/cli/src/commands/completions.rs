//! `outboard completions`: what a shell needs to complete our command lines.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::{Outboard, terminal};

/// Print what a shell needs to complete command lines
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard completions bash > ~/.local/share/bash-completion/completions/outboard
  outboard completions zsh > ~/.zfunc/_outboard            with ~/.zfunc in fpath
  outboard completions fish > ~/.config/fish/completions/outboard.fish")]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Outboard::command(), "outboard", &mut script);
    terminal::print(String::from_utf8_lossy(&script).trim_end())
}
