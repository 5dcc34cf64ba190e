//! `outboard app-rank`: one rank of an application, started by `outboard app`.

use anyhow::{Context, Result};
use outboard::{Configuration, Inputs, Job};
use outboard_messages::{App, ApplicationReport, RunWatch, messenger_options};
use outboard_probe::{CacheMisses, Processors};
use outboard_settings::Settings;

use crate::terminal;

/// How `outboard app` calls this command.
pub(super) const NAME: &str = "app-rank";

/// Play one rank of an application; started by `outboard app`
#[derive(clap::Args)]
#[command(name = NAME, hide = true, after_help = "Examples:
  outboard app histogram       starts this command by itself")]
pub(crate) struct Args {
    /// The application and its sizes, as JSON
    app: String,
    /// Compare the result with that of a serial run
    #[arg(long)]
    check: bool,
}

/// Meets the others and works with them; rank 0 prints what came out, as JSON.
pub(crate) fn run(args: &Args) -> Result<()> {
    let app: App = serde_json::from_str(&args.app).context("this is no application")?;
    let configuration = Configuration::load(&Inputs::from_process().config("none"))?;
    match play(&app, args.check, &configuration.settings)? {
        Some(report) => terminal::print(&serde_json::to_string(&report)?),
        None => Ok(()),
    }
}

/// Plays this process's rank; rank 0 learns what came out.
pub(super) fn play(app: &App, is_checked: bool, settings: &Settings) -> Result<Option<ApplicationReport>> {
    // From the beginning, so that threads which are started later are counted too.
    let misses = CacheMisses::count();
    let job = Job::with_settings(settings)?;
    let mut messenger = job.messenger_with(messenger_options(job.messenger_options()))?;
    let cache_bytes = Processors::here().last_level_cache_size();
    let read = || misses.as_ref().ok()?.so_far().ok();
    Ok(app.play(&mut messenger, &RunWatch { is_checked, cache_misses: Some(&read), cache_bytes })?)
}
