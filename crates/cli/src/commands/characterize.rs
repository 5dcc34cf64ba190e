//! `outboard characterize`: what do the links to the daemons carry, and what does that mean for far memory?

mod cluster;
mod picture;
mod view;

use std::path::PathBuf;

use anyhow::{Context, Result};
use outboard_link::Address;
use outboard_measure::Effort;
use outboard_measure::characterize::{MeasuredDaemon, Party, characterize};

use crate::config_flags::{ConfigFlags, Tool};
use crate::terminal;
use cluster::Cluster;
use picture::Picture;

/// Measure the links to an agent and a memory server, and say what that means for far memory
///
/// Bandwidth and latency of one-sided reads and writes and of two-sided sends, in both directions, for transfers of
/// 4 KiB to 2 MiB and for buffers on every memory node of this machine. What follows for chunk size, protocol and
/// caching is said in words. Without addresses, an agent and a memory server are started for the time of the
/// measurement and reached through shared memory and over TCP. Daemons that run already go on serving others
/// meanwhile, which disturbs the figures and them.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  outboard characterize                              this machine: tables and conclusions
  outboard characterize --quick --svg links.svg      in some seconds, and a picture of it
  outboard characterize --agent tcp:192.0.2.8:7001 --memory tcp:192.0.2.7:7000
                                                     the daemons of a cluster, each over its link
  outboard characterize --json                       one JSON object for programs")]
pub(crate) struct Args {
    /// The agent to measure with: unix:@name, unix:/path or tcp:ip:port
    #[arg(long, value_name = "ADDRESS")]
    agent: Option<Address>,
    /// The memory server to measure with: unix:@name, unix:/path or tcp:ip:port
    #[arg(long, value_name = "ADDRESS")]
    memory: Option<Address>,
    /// Also draw bandwidth and latency over size; an older picture is replaced
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Measure for a shorter time
    #[arg(long)]
    quick: bool,
    /// Only show that it works
    #[arg(long, hide = true, conflicts_with = "quick")]
    tiny: bool,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags<Tool>,
}

/// Measures, and prints and draws what was found.
pub(crate) fn run(args: &Args) -> Result<()> {
    let Some(configuration) = args.config.open(args.json)? else { return Ok(()) };
    let picture = args.svg.as_deref().map(Picture::at).transpose()?;
    let named = [(Party::Agent, &args.agent), (Party::MemoryServer, &args.memory)];
    let named = named.into_iter().filter_map(|(party, address)| Some((party, address.clone()?)));
    let mut targets: Vec<MeasuredDaemon> =
        named.map(|(party, address)| MeasuredDaemon { party, address }).collect();
    let cluster = match targets.is_empty() {
        true => Some(Cluster::start(&configuration.settings)?),
        false => None,
    };
    if let Some(cluster) = &cluster {
        targets = cluster.targets()?;
    }
    let effort = match args {
        Args { tiny: true, .. } => Effort::Tiny,
        Args { quick: true, .. } => Effort::Quick,
        _ => Effort::Full,
    };
    let measured = characterize(&targets, effort, &configuration.settings);
    if let Some(cluster) = cluster {
        cluster.stop();
    }
    let found = measured.context("the links cannot be characterised")?;
    if let Some(picture) = picture {
        picture.draw(&found)?;
    }
    terminal::print(&if args.json { found.to_json() } else { view::to_text(&found) })
}
