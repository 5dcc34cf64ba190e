//! `outboard status`: what do the daemons do?

use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use outboard_link::Address;
use outboard_settings::default_socket;

use crate::config_flags::{ConfigFlags, Tool};
use crate::survey::{Sights, Survey, to_brief, to_json, to_text};
use crate::{daemon_ready, failure, terminal};

/// Show what daemons are doing, without disturbing them
///
/// Says of each daemon where it is, who is connected, how much of its memory is used, what moves in a second, and what
/// went wrong. Reads this from the daemons' memory; they do nothing for it. Without addresses, shows every daemon of this
/// user on this machine.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard status                              every daemon of this user on this machine
  outboard status --watch                      again every second
  outboard status --all                        every number that they count
  outboard status tcp:192.0.2.7:7000 --json    one daemon elsewhere, for programs")]
pub(crate) struct Args {
    /// Which daemons: unix:@name, unix:/path or tcp:ip:port
    #[arg(value_name = "ADDRESS")]
    addresses: Vec<Address>,
    /// Look again every second until interrupted
    #[arg(long)]
    watch: bool,
    /// Show every number that the daemons count
    #[arg(long)]
    all: bool,
    /// Print a JSON array of every number; with --watch, one in a line every second
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<Tool>,
}

/// How often a watcher looks.
const PERIOD: Duration = Duration::from_secs(1);
/// How long to watch before saying what moves in a second.
const GLANCE: Duration = Duration::from_millis(300);

/// How to show what was seen.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Brief,
    All,
    Json,
}

/// Looks and prints, once or until interrupted.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let form = match (args.json, args.all) {
        (true, _) => Form::Json,
        (false, true) => Form::All,
        (false, false) => Form::Brief,
    };
    let mut survey = Survey::new(args.addresses.clone(), configuration.settings.link.clone());
    let mut sights = survey.look();
    if sights.seen.is_empty() && args.addresses.is_empty() {
        return nothing_runs(sights);
    }
    if args.watch {
        return watch(survey, sights, form);
    }
    if form == Form::Brief && !sights.seen.is_empty() {
        // tidy: allow(sleep) rates need time to pass between two looks
        thread::sleep(GLANCE);
        sights = survey.look();
    }
    if sights.failed.is_empty() || args.addresses.is_empty() {
        return terminal::print(&shown(&sights, form));
    }
    // An error is not told as a status too.
    let Sights { seen, failed } = sights;
    let seen = Sights { seen, failed: Vec::new() };
    if args.json || !seen.seen.is_empty() {
        terminal::print(&shown(&seen, form))?;
    }
    let reasons: Vec<String> = failed.iter().map(|(_, error)| failure::chain(error)).collect();
    bail!("no status: {}", reasons.join("\n  "))
}

/// Shows and looks again, until interrupted or until the reader has gone.
fn watch(mut survey: Survey, mut sights: Sights, form: Form) -> Result<()> {
    let in_place = std::io::stdout().is_terminal() && form != Form::Json;
    loop {
        let text = shown(&sights, form);
        if in_place {
            terminal::redraw(&text)?
        } else {
            terminal::print(&text)?
        }
        // tidy: allow(sleep) rates need time to pass between two looks
        thread::sleep(PERIOD);
        sights = survey.look();
    }
}

fn shown(sights: &Sights, form: Form) -> String {
    match form {
        Form::Brief => to_brief(sights),
        Form::All => to_text(sights),
        Form::Json => to_json(sights),
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
