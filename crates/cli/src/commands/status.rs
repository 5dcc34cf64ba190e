//! `outboard status`: what do the daemons do?

use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use outboard_link::Address;
use outboard_settings::default_socket;

use crate::config_flags::{ConfigFlags, Tool};
use crate::survey::{Sights, Survey, to_json, to_text};
use crate::{daemon_ready, failure, terminal};

/// Show what daemons are doing, without disturbing them
///
/// Reads the numbers from the daemons' memory; they do nothing for it. Without addresses, shows every daemon of this
/// user on this machine.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard status                              every daemon of this user on this machine
  outboard status --watch                      again every second, with rates
  outboard status tcp:192.0.2.7:7000 --json    one daemon elsewhere, for programs")]
pub(crate) struct Args {
    /// Which daemons: unix:@name, unix:/path or tcp:ip:port
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<Address>,
    /// Look again every second until interrupted
    #[arg(long)]
    watch: bool,
    /// Print a JSON array instead of tables; with --watch, one in a line every second
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<Tool>,
}

/// How often a watcher looks.
const PERIOD: Duration = Duration::from_secs(1);

/// Looks and prints, once or until interrupted.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let mut survey = Survey::new(args.addresses.clone(), configuration.settings.link.clone());
    let sights = survey.look();
    if sights.seen.is_empty() && args.addresses.is_empty() {
        return nothing_runs(sights);
    }
    if args.watch {
        return watch(survey, sights, args.json);
    }
    if sights.failed.is_empty() || args.addresses.is_empty() {
        return show(&sights, args.json, false);
    }
    // What is told as an error is not told as a status too.
    let Sights { seen, failed } = sights;
    let shown = Sights { seen, failed: Vec::new() };
    if args.json || !shown.seen.is_empty() {
        show(&shown, args.json, false)?;
    }
    let reasons: Vec<String> = failed.iter().map(|(_, error)| failure::chain(error)).collect();
    bail!("no status: {}", reasons.join("\n  "))
}

/// Shows and looks again, until interrupted or until nobody reads any more.
fn watch(mut survey: Survey, mut sights: Sights, as_json: bool) -> Result<()> {
    let in_place = std::io::stdout().is_terminal();
    loop {
        show(&sights, as_json, in_place)?;
        // tidy: allow(sleep) rates need time to pass between two looks
        thread::sleep(PERIOD);
        sights = survey.look();
    }
}

fn show(sights: &Sights, as_json: bool, in_place: bool) -> Result<()> {
    match (as_json, in_place) {
        (true, _) => terminal::print(&to_json(sights)),
        (false, true) => terminal::redraw(&to_text(sights)),
        (false, false) => terminal::print(&to_text(sights)),
    }
}

fn nothing_runs(sights: Sights) -> Result<()> {
    if let Some((address, error)) = sights.failed.into_iter().next() {
        return Err(error.context(format!("{address} is there and does not let us look")));
    }
    let usual = daemon_ready::show(&[default_socket("memory"), default_socket("agent")]);
    bail!(
        "nothing runs here, neither at {usual} nor elsewhere; start a local cluster with `outboard up`, or name a \
         daemon on another machine: `outboard status tcp:ip:port`"
    )
}
