//! `outboard run`: the ranks of a job, on this machine or on several, and agents beside them.

pub(super) mod agent;
mod cluster;
mod hosts;
mod summary;

use std::ffi::OsString;
use std::time::Instant;

use anyhow::{Result, bail};
use outboard_launch::{AgentCores, Console, Interrupts, StdinTo, Style};

use self::cluster::{Remote, Work};
use crate::children::{self, GRACE};
use crate::config_flags::{About, ConfigFlags};
use crate::failure::wrong_usage;
use crate::ranks::{Ended, Ranks};
use crate::terminal;

/// Run a program as several ranks, on this machine or on several
///
/// Every rank learns by its environment (OUTBOARD_JOB_…) which rank it is, of how many, and where it meets the others.
/// What the ranks print is shown line by line with their numbers. When one of them fails, the others are ended, and
/// the exit code is 1.
///
/// With --hosts, this program is started on each of them by a remote shell, and starts its ranks there, and an agent if
/// none runs. It must be installed there, and the program that is run as well.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard run -n 4 ./program input.txt                   four ranks
  outboard run -n 4 --agent other-cores -- ./program      with an agent on processors of its own
  outboard run -n 2 --agent same-cores --agent-quota 30% --wire 10gbit,5us -- ./program
                                                          with a stand-in for a slower agent
  outboard run -n 2 --json -- ./program                   the last line says what became of it
  outboard run --hosts one,two -n 8 ./program             on two machines, by ssh
  outboard run --hosts hosts.txt ./program                hosts line by line: name slots=4
  outboard run --hosts slurm -n 8 ./program               on the nodes of this job of Slurm")]
pub(crate) struct Args {
    /// How many ranks; by default one, or one for each slot or host of --hosts
    #[arg(short = 'n', long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    ranks: Option<u32>,
    /// Run on these machines: a file with a line for each, `-` for such lines on standard input, a list with commas between,
    /// or slurm
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// How a program is started on another machine; the host's name, the program and its arguments are added
    #[arg(long, value_name = "COMMAND", default_value = "ssh", requires = "hosts")]
    shell: String,
    /// Where this program is on the other machines; by default the same place as here
    #[arg(long, value_name = "PATH", requires = "hosts")]
    remote_program: Option<String>,
    /// Where the agent runs: none, same-cores (as the ranks) or other-cores; one that runs already is used as it is.
    /// Without this flag the ranks look for one and go without if there is none; with --hosts it is same-cores
    #[arg(long, value_name = "CORES")]
    agent: Option<AgentCores>,
    /// Show lines without the number of the rank that printed them
    #[arg(long)]
    no_prefix: bool,
    /// Pass the standard input on to this rank; by default no rank reads it
    #[arg(long, value_name = "RANK", conflicts_with = "hosts")]
    stdin: Option<u32>,
    /// At the end, print one JSON object that says what became of the job
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<AboutRun>,
    /// The program, and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "print-config", trailing_var_arg = true)]
    program: Vec<OsString>,
}

struct AboutRun;

impl About for AboutRun {
    const SECTION: &'static str = "";
    const OTHERS: &'static [&'static str] = &["agent", "job", "link", "log"];
    const DECIDED: &'static [&'static str] = &["job.id", "job.rank", "job.size", "job.rendezvous"];
}

/// Runs the job and says what became of it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let mut settings = children::quiet(&configuration);
    let style = if args.no_prefix { Style::Plain } else { Style::Prefixed };
    if let Some(hosts) = &args.hosts {
        let remote = Remote { hosts, shell: &args.shell, program: args.remote_program.as_deref() };
        let agent = args.agent.unwrap_or(AgentCores::Same);
        let (program, ranks, json) = (args.program.as_slice(), args.ranks, args.json);
        return cluster::run(&remote, &Work { program, ranks, agent, style, json }, &settings);
    }
    let ranks = args.ranks.unwrap_or(1);
    if let Some(rank) = args.stdin.filter(|rank| *rank >= ranks) {
        return Err(wrong_usage(&format!("--stdin {rank}: there are the ranks 0 to {}", ranks - 1)));
    }
    let mut console = Console::stdio(style)?;
    // Before anything is started, so that Ctrl-C leaves nothing behind.
    let interrupts = Interrupts::catch()?;
    let began = Instant::now();
    let beside = agent::find_or_start(args.agent, ranks, &settings, &mut console)?;
    if let Some(whereabouts) = beside.whereabouts() {
        settings.job.agent = whereabouts;
    }
    let stdin = args.stdin.map_or(StdinTo::NoRank, StdinTo::Rank);
    let ranks = Ranks {
        program: &args.program,
        count: ranks,
        settings: &settings,
        agents: &[],
        cpus: beside.cpus_of_ranks(),
        stdin,
    };
    let ended = ranks.run(&mut console, Some(&interrupts));
    let agent = beside.summary();
    beside.stop(GRACE);
    let Ended { id, outcome } = ended?;
    if args.json {
        terminal::print(&summary::to_json(id, &outcome, agent, began.elapsed()))?;
    }
    if let Some(error) = console.failure() {
        bail!("some of the ranks' output is lost: {error}");
    }
    if outcome.is_success() { Ok(()) } else { bail!("{outcome}") }
}
