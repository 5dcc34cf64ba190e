//! `outboard run-node`: the ranks of one of several machines, started by `outboard run --hosts`.

use std::io::{BufRead, Read};

use anyhow::{Context, Result, bail};
use outboard_launch::{AgentCores, Console, Interrupts, Launch, Stream, Style};
use outboard_settings::{Configuration, Inputs, JobSettings};
use outboard_wire::Rank;
use serde::{Deserialize, Serialize};

use super::run::agent;
use crate::children::GRACE;

/// How `outboard run` calls this command.
pub(super) const NAME: &str = "run-node";

/// The longest task, in bytes.
const TASK_MAX: u64 = 1 << 20;

/// Look after the ranks of one machine; started by `outboard run --hosts`
///
/// Reads what to do from its standard input, and ends the ranks when that ends.
#[derive(clap::Args)]
#[command(name = NAME, hide = true, after_help = "Examples:
  outboard run --hosts one,two ./program       starts this command by itself")]
pub(crate) struct Args {}

/// The work of one machine.
#[derive(Serialize, Deserialize)]
pub(super) struct NodeTask {
    /// The program and its arguments.
    pub(super) program: Vec<String>,
    /// The number of its first rank, and how many there are here.
    pub(super) first: u32,
    pub(super) count: u32,
    /// Where the agent runs, as `outboard run --agent` has it.
    pub(super) agent: String,
    /// Whether lines are shown without the number of their rank.
    pub(super) is_plain: bool,
    /// Where the program is run, if there is such a folder here.
    pub(super) folder: String,
    /// The settings of all ranks and of the agent.
    pub(super) variables: Vec<(String, String)>,
}

/// Starts the ranks, and an agent if none runs, and waits for them.
pub(crate) fn run(_: &Args) -> Result<()> {
    let mut line = String::new();
    let read = std::io::stdin().lock().take(TASK_MAX).read_line(&mut line);
    read.context("cannot read what to do from the standard input")?;
    let task: NodeTask = serde_json::from_str(&line).context("the standard input does not say what to do")?;
    let inputs =
        task.variables.iter().fold(Inputs::empty(), |inputs, (name, value)| inputs.variable(name, value));
    let mut settings = Configuration::load(&inputs)?.settings;
    let interrupts = Interrupts::catch()?;
    end_with_input()?;
    let mut console = Console::stdio(if task.is_plain { Style::Plain } else { Style::Prefixed })?;
    if std::env::set_current_dir(&task.folder).is_err() {
        let here = std::env::current_dir().unwrap_or_default();
        let note =
            format!("outboard: there is no {} on this machine: running in {}", task.folder, here.display());
        console.say(Stream::Err, &note);
    }
    let cores: AgentCores = task.agent.parse()?;
    let beside = agent::find_or_start(Some(cores), task.count, &settings, &mut console)?;
    if let Some(whereabouts) = beside.whereabouts() {
        settings.job.agent = whereabouts;
    }
    let (program, args) = task.program.split_first().context("no program to run")?;
    let env = |rank| {
        let own = JobSettings { rank: Some(Rank(rank)), ..settings.job.clone() };
        [own.variables(), settings.link.variables(), settings.messages.variables()].concat()
    };
    let launch =
        Launch::new(program).args(args).first(task.first).ranks(task.count).cpus(beside.cpus_of_ranks());
    let outcome = launch
        .env(env)
        .start()
        .map_err(anyhow::Error::from)
        .and_then(|running| Ok(running.wait(&mut console, Some(&interrupts))?));
    beside.stop(GRACE);
    let outcome = outcome?;
    if outcome.is_success() { Ok(()) } else { bail!("{outcome}") }
}

/// The launcher is gone when no process can write to the standard input any more: then the ranks end too.
fn end_with_input() -> Result<()> {
    let watch = || {
        let mut scrap = [0; 256];
        while std::io::stdin().read(&mut scrap).is_ok_and(|len| len > 0) {}
        // As when a user ends it.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    };
    std::thread::Builder::new()
        .name("outboard-input".to_owned())
        .spawn(watch)
        .context("no thread to watch the input")?;
    Ok(())
}
