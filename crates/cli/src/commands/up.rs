//! `outboard up`: a local cluster in the foreground.

mod board;

use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use outboard_launch::{Console, Interrupts, Sink, Style};
use outboard_link::Address;
use outboard_settings::{Configuration, Settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::children::{self, Child, GRACE};
use crate::config_flags::{About, ConfigFlags};
use crate::daemon_ready::{self, show};
use crate::survey::{Sight, Survey, listening};
use board::Board;

/// Run a local cluster in the foreground: a memory server and an agent
///
/// Both run as processes of their own, at this user's usual sockets unless the settings say otherwise, and end with
/// this command: other commands and programs of this user find them there without an address. On a terminal, the lines of
/// `outboard status` are shown as they change; otherwise there is a line for every change.
/// Ctrl-C stops everything. With --metrics the memory server has the given port and the agent the next one.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard up                                    until Ctrl-C
  outboard up --memory-capacity 8GiB --agent-workers 4
  outboard up --keep /var/lib/outboard           named regions are there again next time
  outboard up --agent-quota 30% --wire 10gbit,5us
                                                 with a stand-in for a slower agent far away
  outboard up --json                             the numbers every second, for programs")]
pub(crate) struct Args {
    /// Print a JSON array of all numbers every second
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<AboutUp>,
}

struct AboutUp;

impl About for AboutUp {
    const SECTION: &'static str = "";
    const OTHERS: &'static [&'static str] = &["memory", "agent", "calling", "link", "log", "metrics"];
}

/// How often the numbers are looked at.
const PERIOD: Duration = Duration::from_secs(1);

/// Starts the cluster, shows it until the user has had enough, and stops it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    // Before anything is started, so that Ctrl-C leaves nothing behind.
    let interrupts = Interrupts::catch()?;
    refuse_a_second(&configuration.settings)?;
    let settings = children::quiet(&configuration);
    let is_live = std::io::stdout().is_terminal() && !args.json;
    let mut board = Board::new(args.json, is_live);
    let cluster = match is_live {
        true => Cluster::start(&configuration, settings, || board.sink())?,
        false => {
            let console = Console::stdio(Style::Prefixed)?;
            Cluster::start(&configuration, settings, || console.clone()).map_err(children::seen)?
        }
    };
    board.begin(&cluster.introduction())?;
    let ended = cluster.watch(&mut board, &interrupts);
    board.end();
    let stopped = cluster.stop();
    if ended.is_ok() {
        // Programs read the standard output.
        eprintln!("outboard: {stopped}");
    }
    ended
}

/// A second cluster at the same sockets fails anyway; here it can be told who has them.
fn refuse_a_second(settings: &Settings) -> Result<()> {
    let listening = listening();
    let is_served =
        |address: &&Address| matches!(address, Address::Abstract(name) if listening.contains(name));
    let wanted = settings.memory.listen.iter().chain(&settings.agent.listen);
    let served: Vec<Address> = wanted.filter(is_served).cloned().collect();
    if served.is_empty() {
        return Ok(());
    }
    let seen = Survey::new(served, settings.link.clone()).look().seen;
    let who = |sight: &Sight| {
        let view = &sight.view;
        format!("{} is already in use by the {} (process {})", show(&sight.addresses), view.role, view.pid)
    };
    match seen.is_empty() {
        true => Ok(()),
        false => bail!(
            "{}; `outboard status` shows what runs here; use that, end it, or choose other addresses by \
             --memory-listen and --agent-listen",
            seen.iter().map(who).collect::<Vec<_>>().join(", ")
        ),
    }
}

struct Cluster {
    memory: Child,
    agent: Child,
    settings: Settings,
}

impl Cluster {
    fn start<S: Sink + Send + 'static>(
        configuration: &Configuration,
        mut settings: Settings,
        sink: impl Fn() -> S,
    ) -> Result<Self> {
        let memory = Child::memory(&settings, sink())?;
        if children::is_default(configuration, "agent.memory_servers") {
            settings.agent.memory_servers = memory.listening.first().cloned().into_iter().collect();
        }
        if let Some(address) = &mut settings.metrics.listen
            && address.port() != 0
        {
            address.set_port(address.port().checked_add(1).context("no port after that of --metrics")?);
        }
        let agent = Child::agent(&settings, None, sink())?;
        Ok(Self { memory, agent, settings })
    }

    fn introduction(&self) -> String {
        let part = |child: &Child| {
            let limit = child.process.limit().map(|limit| format!(", {limit}")).unwrap_or_default();
            let (name, pid) = (child.process.name(), child.process.pid());
            format!("{name} (process {pid}) at {}{limit}", daemon_ready::show(&child.listening))
        };
        format!("{}\n{}\nCtrl-C stops them", part(&self.memory), part(&self.agent))
    }

    /// Shows the numbers until the user interrupts, or a daemon ends, which is an error.
    fn watch(&self, board: &mut Board, interrupts: &Interrupts) -> Result<()> {
        let places =
            [&self.memory, &self.agent].into_iter().filter_map(|child| child.listening.first().cloned());
        let mut survey = Survey::new(places.collect(), self.settings.link.clone());
        loop {
            board.show(&survey.look())?;
            await_readable(interrupts, PERIOD)?;
            if interrupts.take().is_some() {
                return Ok(());
            }
            for child in [&self.memory, &self.agent] {
                if let Some(end) = child.process.end() {
                    bail!("{} {end}; everything is stopped", child.process.name());
                }
            }
        }
    }

    /// Stops the agent first, so that it does not miss its memory server. Says what became of both.
    fn stop(self) -> String {
        let [agent, memory] = [self.agent, self.memory].map(|child| child.process.stop(GRACE));
        match agent.is_success() && memory.is_success() {
            true => "stopped: the agent and the memory server have ended".to_owned(),
            false => format!("stopped: the agent {agent}, the memory server {memory}"),
        }
    }
}

fn await_readable(source: &impl AsFd, time: Duration) -> Result<()> {
    let time = Timespec::try_from(time).context("too long a wait")?;
    match poll(&mut [PollFd::new(source, PollFlags::IN)], Some(&time)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait"),
    }
}
