//! `outboard man`: manual pages, made from the help texts.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man;

use crate::{CommandLine, terminal};

/// Print the manual page, or write the pages of all commands to a folder
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard man | man -l -                                  read it
  outboard man ~/.local/share/man/man1                     install a page for every command")]
pub(crate) struct Args {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints or writes.
pub(crate) fn run(args: &Args) -> Result<()> {
    let command = CommandLine::command();
    let Some(folder) = &args.folder else {
        let mut page = Vec::new();
        Man::new(command).render(&mut page).context("cannot make the manual page")?;
        return terminal::print(String::from_utf8_lossy(&page).trim_end());
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .with_context(|| format!("cannot write manual pages to {}", folder.display()))
}
