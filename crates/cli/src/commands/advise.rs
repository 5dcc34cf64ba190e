//! `outboard advise`: who should move a program's messages?
//!
//! A program that uses the library tells how it goes when `OUTBOARD_REPORT` names a folder: every rank writes
//! `rank-N.json` there, each second and at its end. A program that knows better what it fetches from memory leaves
//! `traffic.json` beside them, as `outboard app` does: an object with `memory_to_communication`, `memory_is_measured` and
//! `network_utilisation`.

mod reports;
mod trial;
mod verdict;
mod view;

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result};
use outboard_launch::Interrupts;
use outboard_link::Address;
use outboard_settings::{AddressChoice, Settings, default_socket};

use self::trial::{COMPARED, Trial};
use self::verdict::Verdict;
use crate::children::{self, Child, GRACE};
use crate::config_flags::{About, ConfigFlags};
use crate::ranks::draw_number;
use crate::terminal;

/// Find out who should move a program's messages
///
/// Runs the program with every placement there is, one after the other, for a short time each: inline, where every rank moves
/// its own messages, and by an agent on the same processors. Says how fast messages were moved and which to use. The program
/// is run several times, so it should do no harm when it is; what it prints is not shown.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard advise -- outboard app histogram -n 2 --table 64Mi     an application
  outboard advise -- outboard run -n 4 ./program input.txt        any program that uses the library
  outboard advise --seconds 30 --json -- ./start-my-job.sh        longer, for programs")]
pub(crate) struct Args {
    /// How long each placement is tried at most; a program that takes longer is ended, and judged by how far it came
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<AboutAdvise>,
    /// The program, and its arguments
    #[arg(value_name = "COMMAND", required_unless_present = "print-config", trailing_var_arg = true)]
    command: Vec<OsString>,
}

struct AboutAdvise;

impl About for AboutAdvise {
    const SECTION: &'static str = "";
    const OTHERS: &'static [&'static str] = &["agent", "link", "log"];
    const DECIDED: &'static [&'static str] = &["agent.listen"];
}

/// How often a short program is run with each placement at most.
const RUNS_MAX: usize = 3;

/// Tries all placements and says which to use.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let mut settings = children::quiet(&configuration);
    let interrupts = Interrupts::catch()?;
    let agent = own_agent(&mut settings)?;
    let limit = Duration::from_secs(args.seconds);
    let mut trials = COMPARED.map(|placement| Trial::new(placement, limit));
    // By turns, so that what else the machine does disturbs all of them.
    for _ in 0..RUNS_MAX {
        for trial in trials.iter_mut().filter(|trial| trial.has_time()) {
            let address = agent.as_ref().map(|(_, address)| address);
            trial.run(&args.command, address, &interrupts)?;
        }
    }
    if let Some((agent, _)) = agent {
        agent.process.stop(GRACE);
    }
    let [inline, by_agent] = trials.map(Trial::finish);
    let inline = inline.context("the program does not tell how fast it is")?;
    let verdict = Verdict::reach(&inline, by_agent.as_ref().map_err(ToString::to_string));
    let tried = [Ok(&inline), by_agent.as_ref()];
    terminal::print(&if args.json {
        view::to_json(&verdict, &tried)
    } else {
        view::to_table(&verdict, &tried)
    })
}

/// An agent for the time of the trials, unless there is one that programs are told of anyway.
fn own_agent(settings: &mut Settings) -> Result<Option<(Child, Address)>> {
    if matches!(settings.job.agent, AddressChoice::At(_)) {
        return Ok(None);
    }
    let number = draw_number().context("no random number for the agent's address")?;
    settings.agent.listen = vec![default_socket(&format!("advise-{number:016x}"))];
    let child = Child::agent(settings, None, |_: outboard_launch::Piece<'_>| {})?;
    let address = child.local()?.clone();
    Ok(Some((child, address)))
}
