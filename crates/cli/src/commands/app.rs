//! `outboard app`: applications made of small messages, as ranks on this machine.

mod agents;
pub(super) mod launch;
mod report;
mod sizes;

use anyhow::{Result, anyhow};
use outboard_launch::Interrupts;
use outboard_messages::{App, ApplicationReport};
use outboard_settings::MessagesPlacement;

use self::agents::{Agents, Crowd, Hop};
use self::sizes::{
    HistogramSizes, IndexGatherSizes, ShortestPathsSizes, Sizes, TransportSizes, TransposeSizes,
    TrianglesSizes,
};
use super::app_rank;
use crate::children;
use crate::config_flags::{About, ConfigFlags};
use crate::failure::wrong_usage;
use crate::terminal;

/// Run an application made of small messages, as several ranks on this machine
///
/// The result is the same, bit for bit, in whatever order messages arrive; --check compares it with that of a serial
/// run.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard app histogram -n 2                        how many updates in a second
  outboard app histogram -n 4 --updates 20M --json   the same with more of them, for programs
  outboard app transpose -n 4 --agents 2 --check     by two agents, as if there were two nodes
  outboard app sssp -n 2 --check                     are the paths as short as they can be
  mpirun -n 4 outboard app histogram                 with the ranks that another launcher starts
  outboard help app transpose                        more about one application")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Count in a table that is spread over all ranks
    Histogram(Run<HistogramSizes>),
    /// Read from a table that is spread over all ranks
    IndexGather(Run<IndexGatherSizes>),
    /// Turn the rows of a sparse matrix into columns
    Transpose(Run<TransposeSizes>),
    /// Count the triangles of a graph
    Triangles(Run<TrianglesSizes>),
    /// Find shortest paths from one vertex to all others, by delta-stepping
    Sssp(Run<ShortestPathsSizes>),
    /// Follow particles through a mesh of cells, by chance
    Transport(Run<TransportSizes>),
}

/// An application with its sizes, and how to run it.
#[derive(clap::Args)]
struct Run<S: clap::Args> {
    #[command(flatten)]
    sizes: S,
    /// How many ranks; 2 by default. Where mpirun, srun or `outboard run` has started this as one of several, those
    /// are the ranks
    #[arg(short = 'n', long, value_name = "NUMBER",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(RANKS_MAX)))]
    ranks: Option<u32>,
    /// Start so many agents on this machine, connected over TCP, and have them carry messages between ranks, which have
    /// them by turns; 0 starts none and leaves it to the settings who carries
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    agents: u32,
    /// Which of the many inputs of these sizes
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Compare the result with that of a serial run, and fail if it is different
    #[arg(long)]
    check: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<AboutApp>,
}

/// More processes than this do not fit on a machine.
const RANKS_MAX: u32 = 1024;

struct AboutApp;

impl About for AboutApp {
    const SECTION: &'static str = "";
    const OTHERS: &'static [&'static str] = &["messages", "job", "link", "log"];
    const DECIDED: &'static [&'static str] = &["job.id", "job.rank", "job.size", "job.rendezvous"];
    const MAY_BE_A_RANK: bool = true;
}

/// Runs the application and says what came out.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Histogram(run) => run.run(),
        Command::IndexGather(run) => run.run(),
        Command::Transpose(run) => run.run(),
        Command::Triangles(run) => run.run(),
        Command::Sssp(run) => run.run(),
        Command::Transport(run) => run.run(),
    }
}

impl<S: Sizes> Run<S> {
    fn run(&self) -> Result<()> {
        let Some(configuration) = self.config.open(self.json)? else { return Ok(()) };
        let app = self.sizes.app(self.seed);
        let started = configuration.settings.job.size.filter(|size| *size > 1);
        let ranks = started.or(self.ranks).unwrap_or(2);
        app.check(ranks).map_err(|error| wrong_usage(&error.to_string()))?;
        let (report, hops) = match started {
            None => self.start(&app, ranks, &configuration)?,
            Some(_) => {
                self.refuse_what_the_launcher_decides(ranks)?;
                let mut settings = configuration.settings.clone();
                // The agent that ranks start is this very program.
                settings.job.agent_program = settings.job.agent_program.or(std::env::current_exe().ok());
                match app_rank::play(&app, self.check, &settings)? {
                    Some(report) => (report, Vec::new()),
                    None => return Ok(()),
                }
            }
        };
        report::leave_traffic(&report, &hops)?;
        let crowd = (self.agents > 0).then(|| Crowd::of(ranks, self.agents)).flatten();
        let shown = match self.json {
            true => report::to_json(&report, &hops, crowd.is_some()),
            false => report::to_table(&report, &hops, crowd.as_ref()),
        };
        terminal::print(&shown)?;
        report.wrong().map_or(Ok(()), |what| Err(anyhow!("the result is wrong: {what}")))
    }

    /// A choice that this process cannot make for the others.
    fn refuse_what_the_launcher_decides(&self, ranks: u32) -> Result<()> {
        let flag = match (self.ranks, self.agents) {
            (Some(_), _) => "--ranks",
            (None, 1..) => "--agents",
            (None, 0) => return Ok(()),
        };
        let what = format!(
            "this process was started as one of {ranks} ranks, and cannot start others: leave out {flag}"
        );
        Err(wrong_usage(&what))
    }

    /// Starts this program again for every rank, and reads what rank 0 reports; and what agents say that were started.
    fn start(
        &self,
        app: &App,
        ranks: u32,
        configuration: &outboard_settings::Configuration,
    ) -> Result<(ApplicationReport, Vec<Hop>)> {
        let mut settings = children::quiet(configuration);
        let agents = (self.agents > 0).then(|| Agents::start(self.agents, &settings)).transpose()?;
        if agents.is_some() && children::is_default(configuration, "messages.placement") {
            settings.messages.placement = MessagesPlacement::Agent;
        }
        let interrupts = Interrupts::catch()?;
        let addresses = agents.as_ref().map_or(&[][..], |agents| &agents.addresses);
        let report = launch::play(app, self.check, ranks, (&settings, addresses), &interrupts)?;
        let hops = agents.map(|agents| agents.hops(&settings)).transpose()?;
        Ok((report, hops.map_or(Vec::new(), Vec::from)))
    }
}
